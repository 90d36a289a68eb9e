// Makes the timelines of a page live. Without it they are whole, with the browser's hover text.
//
//   + -   ctrl and the wheel   zoom      arrows  the pointer   an operation
//   drag                       pan       Enter   a click       the critical path
//   0     Escape               all of it
(window.ringsideTimelines ??= (() => {
  const MOST = 40; // times as wide: positions in the picture have two decimals
  const INK = {class: "rs-ink", "font-size": 12}, MIDDLE = {"text-anchor": "middle"};
  const BUTTONS = [["in", "+", 24], ["out", "−", 24], ["all", "all", 32], ["path", "critical path", 88]];
  const KEYS = {"+": "in", "=": "in", "-": "out", 0: "all", Escape: "all", Enter: "path", " ": "path",
    ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
  const acts = new WeakMap(); // what a key or a button does, for each picture that was touched
  const numbers = (one, name) => one.getAttribute(name).match(/-?[\d.]+/g).map(Number);
  const all = (where, css) => [...where.querySelectorAll(css)];
  const set = (one, attributes) => {
    for (const key in attributes) one.setAttribute(key, attributes[key]);
    return one;
  };
  const add = (parent, name, attributes = {}, words = "") => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", name);
    one.textContent = words;
    return parent.appendChild(set(one, attributes));
  };

  function live(svg) {
    const axis = svg.querySelector(".rs-axis"), path = svg.querySelector(".rs-path");
    const [left, right, edge, top, bottom, until] = numbers(axis, "data-axis");
    const [, , width, height] = numbers(svg, "viewBox"), alt = svg.getAttribute("aria-label");
    const steps = path?.querySelector("desc").textContent.split("\n"), ticks = axis.innerHTML;
    const said = new Map(); // our hover text comes at once, and on a phone
    for (const one of all(svg, "title")) said.set(one.parentNode, one.textContent), one.remove();
    const rows = all(svg, ".rs-row").map((row) => all(row, ".rs-bar").map((bar) => {
      const [x, y, wide, high] = numbers(bar, "d");
      return {bar, x, y, wide, high};
    }).sort((a, b) => a.x - b.x)).filter((row) => row.length);
    for (const row of rows) row.forEach((one, k) => { // the gap after a bar isn't time
      if (row[k + 1]?.x - one.x - one.wide < 0.6) one.wide = row[k + 1].x - one.x;
    });
    const arrows = all(svg, ".rs-message").map((one) => [all(one, "path"),
      ...numbers(one.firstElementChild, "d").slice(0, 2), ...numbers(one.lastElementChild, "d")]);
    const paths = all(svg, ".rs-time path:not(.rs-bar, .rs-message *)")
      .map((one) => [one, one.getAttribute("d")]);
    const texts = all(svg, ".rs-time text").map((one) => [one, ...numbers(one, "x")]);
    const id = `ringside-${Math.random().toString(36).slice(2)}`;
    add(add(svg, "clipPath", {id}), "rect", {x: left - 1, y: 0, width: edge - left + 2, height});
    for (const one of all(svg, ".rs-time")) set(one, {"clip-path": `url(#${id})`});
    const list = add(svg, "g"), marks = add(path ?? svg, "g"), tip = add(svg, "g", {class: "rs-quiet"});
    let from = left, zoom = 1, open = false, chosen, held;
    const X = (x) => left + (x - from) * zoom;
    const middle = (bar) => bar.x + bar.wide / 2;

    function draw() {
      from = Math.min(Math.max(from, left), edge - (edge - left) / zoom);
      svg.style.touchAction = zoom > 1 ? "pan-y" : "";
      const at = (_, c, x) => c + (c === "h" ? x * zoom : X(+x));
      for (const [one, d] of paths) set(one, {d: d.replace(/([MLHh])(-?[\d.]+)/g, at)});
      for (const [one, x] of texts) set(one, {x: X(x)});
      for (const {bar, x, y, wide, high} of rows.flat())
        set(bar, {d: `M${X(x)} ${y}h${Math.max(wide * zoom - 0.5, 0.3)}v${high}H${X(x)}z`});
      for (const [lines, x1, y1, x2, y2] of arrows) { // heads keep their size
        const dx = (x2 - x1) * zoom, dy = y2 - y1, long = Math.hypot(dx, dy) || 1;
        const u = dx / long, v = dy / long, x = X(x2) - 6 * u, y = y2 - 6 * v;
        const sides = `L${x - 2.6 * v} ${y + 2.6 * u}L${x + 2.6 * v} ${y - 2.6 * u}z`;
        for (const one of lines) set(one, {d: `M${X(x1)} ${y1}L${x} ${y}`});
        set(lines.at(-1), {d: `M${X(x2)} ${y2}${sides}`});
      }
      axis.innerHTML = ticks;
      if (zoom > 1) retick();
      mark();
    }

    function retick() {
      const [grid, ...labels] = axis.children, name = labels.pop();
      const unit = until / (right - left), start = (from - left) * unit;
      const long = (edge - left) * unit / zoom, ten = 10 ** Math.floor(Math.log10(long / 8));
      const step = [1, 2, 5, 10].find((k) => k * ten >= long / 8) * ten;
      let d = "";
      for (let k = Math.ceil(start / step); k * step <= Math.min(start + long, until); k++) {
        const x = X(left + k * step / unit), tick = set(labels[0].cloneNode(), {x});
        tick.textContent = (k * step).toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
        axis.insertBefore(tick, name);
        d += `M${x} ${top}V${bottom}`;
      }
      for (const one of labels) one.remove();
      set(grid, {d});
    }

    function mark() { // the critical path: its steps are numbered, and told below the picture
      const lines = open ? steps : [], high = height + lines.length * 16 + 8 * open;
      set(svg, {viewBox: `0 0 ${width} ${high}`, height: high, "aria-label": [alt, ...lines].join(" ")});
      set(svg.querySelector(".rs-paper"), {height: high});
      list.replaceChildren();
      marks.replaceChildren();
      lines.forEach((one, k) => add(list, "text", {...INK, x: 16, y: height + 12 + 16 * k}, one));
      for (const one of all(svg, ".rs-row .rs-time, .rs-words")) one.style.opacity = open ? 0.35 : "";
      const drawn = all(path ?? marks, "path"), line = drawn.at(-1)?.getAttribute("d") ?? "";
      drawn.forEach((one, k) => { one.style.strokeWidth = open ? [8, 5][k] : ""; });
      if (open) [...line.matchAll(/[ML](\S+) ([^H]+)H([-.\d]+)/g)].forEach(([, a, y, b], k) => {
        if (b - a > 14) add(marks, "text", {...INK, ...MIDDLE, x: (+a + +b) / 2, y: +y + 13}, k + 1);
      });
    }

    function tell(one, x, y) { // what lies at a place
      tip.replaceChildren();
      if (!said.has(one)) return;
      const frame = (svg.parentElement ?? svg).getBoundingClientRect(), {a, e} = svg.getScreenCTM();
      const first = Math.max(0, (frame.left - e) / a), last = Math.min(width, (frame.right - e) / a);
      const lines = said.get(one).split(last - first < 500 ? /\n| · / : "\n"); // on a phone: short ones
      const box = add(tip, "rect", {class: "rs-paper rs-muted-line", rx: 4}), words = add(tip, "g");
      lines.forEach((line, k) => add(words, "text", {...INK, x: 8, y: 17 + 16 * k}, line));
      const wide = words.getBBox().width + 16, high = words.getBBox().height + 12;
      const beside = Math.max(first + 4, Math.min(x + 10, last - wide - 4));
      set(box, {width: wide, height: high});
      set(tip, {transform: `translate(${beside} ${y + 16 + high > height ? Math.max(2, y - high - 8) : y + 16})`});
    }

    function choose(across, down) { // the operation beside the chosen one, or of the next rank
      const row = rows.findIndex((one) => one.includes(chosen)), seen = (edge - left) / zoom;
      const next = rows[Math.min(Math.max(row + down, 0), rows.length - 1)] ?? [];
      const at = chosen ? middle(chosen) : from, here = next.findLastIndex((one) => one.x <= at);
      if (chosen) chosen.bar.style.stroke = "";
      chosen = next[Math.min(Math.max(here + (chosen ? across : 0), 0), next.length - 1)];
      if (!chosen) return;
      chosen.bar.style.stroke = "var(--ink)";
      if (middle(chosen) < from || middle(chosen) > from + seen) from = middle(chosen) - seen / 2;
      draw();
      tell(chosen.bar, X(middle(chosen)), chosen.y + chosen.high);
      set(svg, {"aria-label": said.get(chosen.bar) ?? alt});
    }

    function act(what, x = chosen ? X(middle(chosen)) : (left + edge) / 2) {
      if (Array.isArray(what)) return choose(...what);
      const at = from + (x - left) / zoom;
      if (what === "path") open = !open && !!path;
      else zoom = what === "all" ? 1 : Math.min(MOST, Math.max(1, zoom * (what === "in" ? 1.5 : 1 / 1.5)));
      from = at - (x - left) / zoom;
      tell();
      draw();
    }

    BUTTONS.filter(([what]) => what !== "path" || path).reduce((x, [what, words, wide]) => {
      const one = add(svg, "g", {"data-do": what, style: "cursor:pointer"}), y = height - 23;
      add(one, "rect", {class: "rs-paper rs-muted-line", x, y, width: wide, height: 18, rx: 4});
      add(one, "text", {...INK, ...MIDDLE, x: x + wide / 2, y: y + 13}, words);
      return x + wide + 4;
    }, 16);
    const place = (e) => new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const under = (e) => {
      const {x, y} = place(e);
      let one = e.target;
      while (one !== svg && !said.has(one)) one = one.parentNode;
      tell(one, x, y);
    };
    const on = (name, act) => svg.addEventListener(name, act, {passive: false});
    on("pointerdown", (e) => { held = {x: place(e).x, from, moved: false, touch: e.pointerType === "touch"}; });
    on("pointermove", (e) => {
      const {x} = place(e);
      if (!e.buttons) return under(e);
      if (!held || zoom === 1 || Math.abs(x - held.x) < 3) return;
      held.moved = true;
      from = held.from - (x - held.x) / zoom;
      tell();
      draw();
    });
    on("pointerleave", () => tell());
    on("click", (e) => {
      const button = e.target.closest("[data-do]")?.dataset.do;
      if (button) act(button);
      else if (held?.touch) under(e);
      else if (!held?.moved) act("path");
    });
    on("wheel", (e) => {
      if (!e.ctrlKey) return;
      e.preventDefault();
      act(e.deltaY < 0 ? "in" : "out", place(e).x);
    });
    return act;
  }

  const wake = (e) => {
    const svg = e.target.closest?.("svg.ringside:has(.rs-axis)");
    if (svg && !acts.has(svg)) acts.set(svg, live(svg));
  };
  document.addEventListener("pointerover", wake);
  document.addEventListener("focusin", wake);
  window.addEventListener("keydown", (e) => { // before Jupyter's own keys, and a slide's
    const act = acts.get(document.activeElement), what = KEYS[e.key];
    if (!act || !what || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    act(what);
  }, true);
  return () => all(document, "svg.ringside:has(.rs-axis)").forEach((svg) => { svg.tabIndex = 0; });
})())();
