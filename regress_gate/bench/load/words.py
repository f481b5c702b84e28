"""The words of texts for endpoints that take no token ids: short and common, so that most tokenizers have each as one.

Texts are made of them by position: a word that is added, taken out or moved makes all texts others, which moves
numbers and is a change of the client's version.
"""

_LIST = (
    "able about above across act add after again age ago air all also always and animal answer any area arm art "
    "ask back ball bank base bed best better big bird black blood blue board boat body book both box boy bring "
    "build call car care case cause cell center chair change child city class clear close cold color come cost "
    "country course cross cut dark data day deep door down draw dream drive early earth east eat edge end energy "
    "even eye face fact fall family farm fast father feel field final find fine fire first fish floor food foot "
    "force form free friend from full game garden girl give glass go gold good great green ground group grow hand "
    "happy hard head hear heart heat heavy help high hill history hold home horse hot hour house human idea ice "
    "inside island job keep key kind king know land large last late law lead learn leave left letter level life "
    "light line list little long look lost love low machine main make man map market mean metal mind money month "
    "moon more mother mountain move music name near new night north note number ocean office old open order other "
    "paper part party people person picture place plan plant play point power press public question quick rain "
    "read real red rest rich right river road rock room round rule run science sea season second seed send sense "
    "serve ship short show side simple sleep small snow social song sound south space speak special spring star "
    "start state stone street strong student study summer sun system table talk teach team test thing think time "
    "town trade train tree true turn under unit value voice walk wall war warm water way wear week west white "
    "wide wild win wind winter wish woman wood word work world write year yellow young"
)
WORDS = tuple(_LIST.split())
