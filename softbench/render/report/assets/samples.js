
const REACH = 6;
const PLOT = { width: 460, height: 170, left: 58, right: 8, top: 12, bottom: 26 };

function sampleFigure(samples) {
  const rounds = expand(samples).map((values) => values.map((ns) => ns / samples.launches / 1e3));
  const all = rounds.flat();
  if (!all.length) return null;
  const middle = perLaunch(samples) / 1e3;
  const scale = sampleScale(all, rounds.length);
  const beyond = all.filter((value) => value > scale.high).length;
  const said = [
    `${samples.clock} clock: ${plural(rounds.filter((values) => values.length).length, "placement")}`,
    `${samples.launches} ${samples.launches === 1 ? "launch" : "launches"} a sample`,
    samples.cache ? `${samples.cache} L2` : "",
    samples.heat ? `heat ${samples.heat}` : "",
    `${samples.clock === "call" ? "fastest group" : "median"} ${middle.toFixed(3)} µs, ${Math.min(...all).toFixed(3)} to ${Math.max(...all).toFixed(3)}`,
    beyond ? `${plural(beyond, "sample")} above the drawing (▲)` : "",
  ].filter(Boolean).join("; ");
  return element("figure", {},
    element("figcaption", {}, said),
    drawSamples(rounds, middle, scale, said),
    element("details", { class: "small" }, element("summary", {}, "samples in µs"), sampleTable(rounds, samples.clock)));
}

// Interruptions take many times longer than other rounds: values far above the rest are marked at the edge.
function sampleScale(all, placements) {
  const sorted = [...all].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const low = sorted[0];
  const reach = at(0.5) + REACH * (at(0.75) - low);
  const high = Math.max(Math.min(sorted[sorted.length - 1], reach), low * 1.0005);
  const { width, height, left, right, top, bottom } = PLOT;
  return {
    low, high,
    x: (placement, share) => left + ((placement + 0.15 + 0.7 * share) / placements) * (width - left - right),
    y: (value) => top + (1 - (Math.min(value, high) - low) / (high - low)) * (height - top - bottom),
  };
}

function drawSamples(rounds, middle, scale, said) {
  const { width, height, left, right, bottom } = PLOT;
  const parts = [scale.low, (scale.low + scale.high) / 2, scale.high].flatMap((value) => [
    svg("line", { class: "grid", x1: left, x2: width - right, y1: scale.y(value), y2: scale.y(value) }),
    svg("text", { x: left - 6, y: scale.y(value) + 4, "text-anchor": "end" }, value.toFixed(value < 100 ? 3 : 1)),
  ]);
  parts.push(svg("line", { class: "median", x1: left, x2: width - right, y1: scale.y(middle), y2: scale.y(middle) }));
  rounds.forEach((values, placement) => {
    values.forEach((value, index) => {
      const [x, y] = [scale.x(placement, values.length > 1 ? index / (values.length - 1) : 0.5), scale.y(value)];
      parts.push(value > scale.high
        ? svg("path", { class: "beyond", d: `M${x - 4},${y + 3}h8l-4,-7z` })
        : svg("circle", { class: "round", cx: x.toFixed(1), cy: y.toFixed(1), r: 2.2 }));
    });
    if (!values.length) return; // measured again: its rounds are under the clock "unsteady", or the other way round
    const own = scale.y(median(values));
    parts.push(svg("line", { class: "middle", x1: scale.x(placement, 0), x2: scale.x(placement, 1), y1: own, y2: own }));
  });
  const every = Math.ceil(rounds.length / 8);
  rounds.forEach((_, placement) => {
    if (placement % every === 0) {
      parts.push(svg("text", { x: scale.x(placement, 0.5), y: height - bottom + 15, "text-anchor": "middle" }, placement + 1));
    }
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, parts);
}

function sampleTable(rounds, clock) {
  const most = Math.max(...rounds.map((values) => values.length));
  const header = ["placement", "median", ...Array.from({ length: most }, (_, index) => `round ${index + 1}`)];
  const figures = (values) => (values.length ? [median(values), ...values] : []);
  const rows = rounds.map((values, index) => [index + 1, ...figures(values).map((value) => value.toFixed(3))]);
  return tableElement(`samples of the ${clock} clock`, header, rows);
}
