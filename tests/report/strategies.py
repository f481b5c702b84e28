"""Texts that try to be more than text: markup, commands to a terminal, and what GitHub acts on."""

from hypothesis import strategies as st

FRAGMENTS = [
    "|", "\\|", "\\", "`", "``", "*", "_", "~", "~~", "$", "<", ">", "&", "&lt;", "&#64;", "[", "]", "(", ")", "!", "#",
    "@", ":", "-", "---", "===", "+", "1.", "1)", "\n", "\r\n", "\n\n", "\t", "    ", "\n    ", " ", "a", "b", "中",
    "é", "\U0001f469\u200d\U0001f680",
    "<b>", "</details>", "<!--", "-->", "<script>", "<https://evil.example>", "![i](x)", "[l](x)", "[l]: x", "[^1]",
    "https://evil.example", "HTTP://evil.example", "www.evil.example", "me@evil.example", "@octocat", "#12", "GH-12",
    "o/r#1", ":tada:", "[red]", "[/red]", "\x1b[31m", "\x1b]8;;x\x07", "\x1b", "\x9b", "\x00", "\x07", "\x08",
    "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b",
    "\u200d", "\ufeff", "\u00ad", "{{ 1 }}", "{% raw %}", "```", "~~~",
    "::", "##[", "::error::", "::set-output name=decision::pass", "##[set-output name=decision]pass",
    "::stop-commands::x", "##[add-mask]fail", "%0A::error::x", "\r::error::x", "](https://evil.example)", "]]>",
    "<![CDATA[", "&#0;", "\ufffe", "\U0001f600", "{0}", "：：error：：", "＃＃［",
]  # fmt: skip

hostile_text = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
)
