// A chart to zoom into, above the picture of the same series. Without this script the page lacks nothing but the zoom.
"use strict";
(function () {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const texts = { "in": "Zoom in", "out": "Zoom out", left: "Older", right: "Newer", all: "Show all" };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all", Home: "all" };

  function element(parent, tag, className, text) {
    const made = document.createElement(tag);
    if (className) { made.className = className; }
    if (text) { made.textContent = text; }
    parent.appendChild(made);
    return made;
  }

  function show(holder) {
    const data = JSON.parse(document.getElementById(holder.dataset.source).textContent);
    const first = data.places[0], last = data.places[data.places.length - 1];
    const at = new Map(data.places.map((place, index) => [place, index]));
    const name = (place) => data.versions[at.get(place)] || "";
    const tools = element(holder, "div", "tools");
    const plot = element(holder, "div", "plot");
    const said = element(holder, "p", "muted");
    said.setAttribute("role", "status");
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-label", data.name + ": arrow keys move, plus and minus zoom, 0 shows all. The numbers are in the table below.");
    let chart = null, low = first, high = last;

    function options() {
      const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
      return {
        width: Math.max(280, plot.clientWidth), height: 300, padding: [14, 56, 0, 0],
        cursor: { drag: { x: true, y: false } },
        scales: { x: { time: false, range: (_, from, to) => [from, to] } },
        legend: { live: true },
        axes: [
          Object.assign({}, axis, {
            space: 110,
            values: (_, splits) => splits.map((place) => Number.isInteger(place) ? name(place) : ""),
          }),
          Object.assign({}, axis, { size: 70, label: data.unit, labelSize: 16, labelFont: "12px system-ui, sans-serif" }),
        ],
        series: [
          { label: "version", value: (_, place) => place === null ? "\u2013" : name(place) },
          { label: data.name, stroke: colour("--drawn"), width: 1.5, spanGaps: true, points: { size: 5 },
            value: (_, value) => value === null ? "\u2013" : value.toPrecision(4) + " " + data.unit },
        ],
        hooks: {
          setScale: [(self, key) => { if (key === "x") { tell(self.scales.x.min, self.scales.x.max); } }],
          draw: [marks],
        },
      };
    }

    function marks(self) {
      const pen = self.ctx, ratio = devicePixelRatio || 1;
      pen.save();
      pen.lineWidth = 2 * ratio;
      pen.textAlign = "left";
      data.changes.forEach((change, index) => {
        if (change.at < self.scales.x.min || change.at > self.scales.x.max) { return; }
        const x = self.valToPos(change.at, "x", true);
        pen.strokeStyle = pen.fillStyle = colour(change.worse ? "--bad" : "--good");
        pen.setLineDash([6 * ratio, 4 * ratio]);
        pen.beginPath();
        pen.moveTo(x, self.bbox.top);
        pen.lineTo(x, self.bbox.top + self.bbox.height);
        pen.stroke();
        pen.font = 12 * ratio + "px system-ui, sans-serif";
        pen.fillText((change.worse ? "\u25b2" : "\u25cf") + (index + 1), x + 4 * ratio, self.bbox.top + 13 * ratio);
      });
      pen.restore();
    }

    function tell(from, to) {
      low = from;
      high = to;
      const seen = data.places.filter((place) => place >= from && place <= to);
      // Of a long series those are drawn that show its shape.
      const all = Math.floor(to) - Math.ceil(from) + 1;
      const points = all > seen.length ? seen.length + " of " + all + " points drawn" : seen.length + " points";
      const inside = data.changes.filter((change) => change.at >= from && change.at <= to).length;
      said.textContent = seen.length ? name(seen[0]) + " to " + name(seen[seen.length - 1]) + ", " + points + ", " + inside + (inside === 1 ? " change" : " changes") : "no point";
    }

    function move(what) {
      const span = high - low, middle = (low + high) / 2;
      let from = low, to = high;
      if (what === "in" && span > 4) { from = middle - span / 4; to = middle + span / 4; }
      if (what === "out") { from = middle - span; to = middle + span; }
      if (what === "left") { from = low - span / 4; to = high - span / 4; }
      if (what === "right") { from = low + span / 4; to = high + span / 4; }
      if (what === "all" || to - from >= last - first) { from = first; to = last; }
      if (from < first) { to += first - from; from = first; }
      if (to > last) { from -= to - last; to = last; }
      chart.setScale("x", { min: Math.max(first, from), max: Math.min(last, to) });
    }

    function draw() {
      const from = low, to = high;
      if (chart) { chart.destroy(); }
      chart = new uPlot(options(), [data.places, data.values], plot);
      chart.setScale("x", { min: from, max: to });
    }

    Object.keys(texts).forEach((what) => {
      const button = element(tools, "button", "", texts[what]);
      button.type = "button";
      button.addEventListener("click", () => move(what));
    });
    plot.addEventListener("keydown", (event) => {
      const what = keys[event.key];
      if (what && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        move(what);
      }
    });
    dark.addEventListener("change", draw);
    let width = plot.clientWidth;
    new ResizeObserver(() => {
      if (chart && plot.clientWidth !== width) {
        width = plot.clientWidth;
        chart.setSize({ width: Math.max(280, width), height: 300 });
      }
    }).observe(plot);
    draw();
  }

  document.querySelectorAll(".zoom").forEach(show);
})();
