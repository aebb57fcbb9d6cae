"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const node = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  // --- numbers -------------------------------------------------------------------------------
  const digits = (v) => (v >= 100 ? Math.round(v).toString() : v.toPrecision(3));
  const time = (s) => {
    if (s === null) return "–";
    for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]]) {
      if (s >= scale) return digits(s / scale) + " " + unit;
    }
    return digits(s * 1e9) + " ns";
  };
  const share = (v) => (v === null ? "–" : v >= 0.1 ? Math.round(v * 100) + "%" : v >= 0.0005 ? (v * 100).toFixed(1) + "%" : v > 0 ? "<0.1%" : "0");
  const ratio = (v) => (v === null ? "–" : (v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0)) + "×");
  const plain = (v) => (v === null ? "–" : String(Number(v.toPrecision(4))));

  // --- colours -------------------------------------------------------------------------------
  const themes = ["system", "light", "dark"];
  const button = $("theme");
  const remember = (value) => { try { if (value) localStorage.setItem("theme", value); return localStorage.getItem("theme"); } catch { return value; } };
  const wear = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    button.textContent = "Colours: " + name;
    button.dataset.now = name;
  };
  button.hidden = false;
  wear(themes.includes(remember()) ? remember() : "system");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.now) + 1) % themes.length];
    remember(next);
    wear(next);
  });

  // --- tips ----------------------------------------------------------------------------------
  const tip = $("tip");
  let told = null;
  const showTip = (target, text) => {
    told = target;
    tip.textContent = text;
    tip.hidden = false;
    placeTip(target);
  };
  const placeTip = (target) => {
    const at = target.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(at.left + at.width / 2 - box.width / 2, 6), innerWidth - box.width - 6);
    const above = at.top - box.height - 8;
    tip.style.left = left + "px";
    tip.style.top = (above > 4 ? above : at.bottom + 8) + "px";
  };
  const hideTip = () => { tip.hidden = true; };
  for (const chart of document.querySelectorAll(".roofline")) {
    const points = [...chart.querySelectorAll(".pt")];
    for (const point of points) {
      const title = point.querySelector("title");
      point.dataset.tip = title.textContent;
      title.remove();
    }
    points.sort((a, b) => a.getBBox().x - b.getBBox().x);
    let at = -1;
    const go = (next) => {
      points[at]?.classList.remove("here");
      at = (next + points.length) % points.length;
      points[at].classList.add("here");
      showTip(points[at], points[at].dataset.tip);
      $("say").textContent = points[at].dataset.tip;
    };
    chart.addEventListener("pointerover", (e) => { if (e.target.dataset.tip) showTip(e.target, e.target.dataset.tip); });
    chart.addEventListener("pointerout", hideTip);
    chart.addEventListener("click", (e) => { if (e.target.dataset.q) find(e.target.dataset.q); });
    chart.addEventListener("keydown", (e) => {
      if (e.key === "ArrowRight") go(at + 1);
      else if (e.key === "ArrowLeft") go(at < 0 ? -1 : at - 1);
      else if (e.key === "Enter" && at >= 0) find(points[at].dataset.q);
      else if (e.key === "Escape") hideTip();
      else return;
      e.preventDefault();
    });
    chart.addEventListener("blur", () => { points[at]?.classList.remove("here"); hideTip(); });
  }
  addEventListener("scroll", () => { if (!tip.hidden) placeTip(told); }, { passive: true });

  // --- the table of all facts ----------------------------------------------------------------
  const unpack = async () => {
    const holder = $("data"), text = holder.textContent;
    if (holder.dataset.kind === "json") return JSON.parse(text);
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  let D, C, view = [], page = 0, size = 50, order = { key: null, down: false };
  const open = new Set();
  const G = { op: 0, problem: 1, place: 2, cache: 3, sol: 4, binds: 5, about: 6, ridge: 7, flops: 8, bytes: 9, best: 10, bestName: 11, native: 12, nativeName: 13, compute: 14, calls: 15 };
  const g = (i, name) => D.groups[C.group[i]][G[name]];
  const over = (a, b) => (a === null || b === null || !b ? null : a / b);
  const good = (i) => D.statuses[C.status[i]] === "ok" && C.time[i] !== null;
  const sol = (i) => { const v = over(g(i, "sol"), C.time[i]); return v === null || v > 1.0005 || !["ok", "incorrect"].includes(D.statuses[C.status[i]]) ? null : Math.min(v, 1); };
  const roof = (i) => { const v = over(C.roof[i], C.time[i]); return v === null ? null : Math.min(v, 1); };
  const problem = (i) => D.problems[g(i, "problem")];
  const intensity = (i) => over(g(i, "flops"), g(i, "bytes"));

  const columns = [
    { key: "op", name: "op", get: (i) => D.ops[g(i, "op")].join(" "), show: (i) => D.ops[g(i, "op")][0] },
    { key: "problem", name: "problem", get: (i) => problem(i)[0] },
    { key: "place", name: "device", get: (i) => D.places[g(i, "place")] },
    { key: "candidate", name: "backend", get: (i) => D.candidates[C.candidate[i]][0], show: (i) => D.candidates[C.candidate[i]][0] + (C.chosen[i] ? " (chosen)" : "") },
    { key: "time", name: "time", get: (i) => C.time[i], show: (i) => time(C.time[i]), n: 1 },
    { key: "spread", name: "±", get: (i) => C.spread[i], show: (i) => share(C.spread[i]), n: 1 },
    { key: "sol", name: "of SOL", get: sol, show: (i) => (g(i, "about") && sol(i) !== null ? "≈" : "") + share(sol(i)), n: 1, down: 1 },
    { key: "roof", name: "of roof", get: roof, show: (i) => share(roof(i)), n: 1, down: 1 },
    { key: "score", name: "score", get: (i) => C.score[i], show: (i) => (C.score[i] === null ? "–" : C.score[i].toFixed(2)), n: 1, down: 1 },
    { key: "gap", name: "gap", get: (i) => (good(i) ? over(C.time[i], g(i, "best")) : null), n: 1 },
    { key: "native", name: "to native", get: (i) => (good(i) ? over(C.time[i], g(i, "native")) : null), n: 1 },
    { key: "binds", name: "binds", get: (i) => g(i, "binds") },
    { key: "intensity", name: "FLOP/B", get: intensity, show: (i) => plain(intensity(i)), n: 1 },
    { key: "mfu", name: "MFU", get: (i) => (sol(i) === null ? null : over(g(i, "compute"), C.time[i])), n: 1, down: 1 },
    { key: "total", name: "calls × time", get: (i) => (g(i, "calls").length && good(i) ? g(i, "calls").reduce((a, b) => a + b, 0) * C.time[i] : null), show: (i) => time(total.get(i)), n: 1, down: 1 },
    { key: "config", name: "config", get: (i) => D.configs[C.config[i]] },
    { key: "status", name: "status", get: (i) => D.statuses[C.status[i]] },
  ];
  for (const c of columns) {
    if (!c.show) c.show = { gap: (i) => ratio(c.get(i)), native: (i) => ratio(c.get(i)), mfu: (i) => share(c.get(i)) }[c.key] || c.get;
  }

  const total = columns.find((c) => c.key === "total");

  const table = $("facts-table"), body = table.tBodies[0];
  const head = () => {
    const line = node("tr");
    line.append(node("th", ""));
    line.firstChild.append(node("span", "details", "sr"));
    for (const c of columns) {
      const cell = node("th", null, (c.n ? "n " : "") + c.key);
      cell.setAttribute("role", "columnheader");
      cell.scope = "col";
      const sort = node("button", c.name);
      sort.type = "button";
      sort.dataset.sort = c.key;
      sort.addEventListener("click", () => sortBy(c));
      cell.append(sort);
      line.append(cell);
    }
    table.tHead.replaceChildren(line);
  };
  const sortBy = (c) => {
    order = order.key === c.key ? { key: c.key, down: !order.down } : { key: c.key, down: !!c.down };
    arrange();
    const arrow = order.down ? "descending" : "ascending";
    for (const b of table.tHead.querySelectorAll("button")) {
      if (b.dataset.sort === c.key) b.parentNode.setAttribute("aria-sort", arrow);
      else b.parentNode.removeAttribute("aria-sort");
    }
    page = 0;
    draw();
  };
  const arrange = () => {
    const c = columns.find((x) => x.key === order.key);
    if (!c) return;
    const keys = new Map(view.map((i) => [i, c.get(i)]));
    const sign = order.down ? -1 : 1;
    view.sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      if (x === null || y === null) return (x === null) - (y === null);  // unknown always last
      return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) || a - b;
    });
  };

  const pick = { op: $("f-op"), place: $("f-place"), candidate: $("f-candidate"), status: $("f-status") };
  const options = (select, values) => {
    select.append(new Option("all", ""));
    for (const v of [...new Set(values)].sort()) select.append(new Option(v, v));
  };
  const filter = () => {
    const words = $("f-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const op = pick.op.value, place = pick.place.value, who = pick.candidate.value, status = pick.status.value;
    const only = $("f-headline").checked, chosen = $("f-chosen").checked;
    view = [];
    for (let i = 0; i < C.time.length; i++) {
      if (only && !C.headline[i]) continue;
      if (chosen && !C.chosen[i]) continue;
      if (op && D.ops[g(i, "op")][0] !== op) continue;
      if (place && D.places[g(i, "place")] !== place) continue;
      if (who && D.candidates[C.candidate[i]][0] !== who) continue;
      if (status && D.statuses[C.status[i]] !== status) continue;
      if (words.length) {
        const text = (D.ops[g(i, "op")].join(" ") + " " + problem(i).join(" ") + " " + D.candidates[C.candidate[i]].join(" ") + " " + D.configs[C.config[i]] + " " + D.flags[C.flags[i]] + " " + D.places[g(i, "place")]).toLowerCase();
        if (!words.every((w) => text.includes(w))) continue;
      }
      view.push(i);
    }
    arrange();
    page = 0;
    draw();
  };

  const detail = (i) => {
    const line = node("tr", null, "detail"), cell = node("td");
    cell.colSpan = columns.length + 1;
    const steps = C.steps[i], hows = D.hows[C.hows[i]].split(", ");
    if (steps.length) {
      const bar = node("div", null, "bar");
      bar.setAttribute("role", "img");
      const words = [];
      steps.forEach((s, k) => {
        const text = D.steps[k] + " " + time(C.time[i] * s / 1000) + " (" + hows[k] + ")";
        if (s > 0 || hows[k] === "unknown") words.push(text);
        if (s <= 0) return;
        const part = node("span", null, "s" + k);
        part.style.width = s / 10 + "%";
        part.title = text;
        bar.append(part);
      });
      bar.setAttribute("aria-label", words.join("; "));
      cell.append(bar, node("p", words.join(" → ")));
    }
    const list = node("dl");
    const say = (k, v) => { if (v !== null && v !== "" && v !== "–") list.append(node("dt", k), node("dd", v)); };
    say("reason", D.reasons[C.reason[i]]);
    say("layers", problem(i)[1]);
    say("T_SOL", time(g(i, "sol")) + (g(i, "ridge") ? ", ridge " + plain(g(i, "ridge")) + " FLOP/B" : "") + (g(i, "about") ? " (estimated peak)" : ""));
    say("T_roof", time(C.roof[i]));
    say("best", g(i, "best") ? time(g(i, "best")) + " by " + g(i, "bestName") : "");
    say("native baseline", g(i, "native") ? time(g(i, "native")) + " by " + g(i, "nativeName") : "");
    say("work", g(i, "flops") === null ? "" : plain(g(i, "flops")) + " FLOP, " + plain(g(i, "bytes")) + " B");
    say("calls", g(i, "calls").length ? g(i, "calls").map(plain).join(", ") : "");
    say("timing", C.samples[i] + " samples, " + C.method[i] + ", " + g(i, "cache"));
    say("notes", D.flags[C.flags[i]]);
    say("path", D.candidates[C.candidate[i]][1]);
    say("config", D.configs[C.config[i]]);
    say("versions", D.versions[C.versions[i]]);
    say("measured", D.created[C.created[i]]);
    cell.append(list);
    line.append(cell);
    return line;
  };
  const row = (i) => {
    const line = node("tr", null, good(i) ? "" : "off");
    line.setAttribute("role", "row");  // cards on a phone are still a table
    const first = node("td"), more = node("button", open.has(i) ? "–" : "+", "open");
    more.type = "button";
    more.setAttribute("aria-expanded", open.has(i));
    more.setAttribute("aria-label", "Details of " + D.ops[g(i, "op")][0] + " on " + D.candidates[C.candidate[i]][0]);
    more.addEventListener("click", () => {
      if (open.delete(i)) line.nextSibling.remove();
      else { open.add(i); line.after(detail(i)); }
      more.textContent = open.has(i) ? "–" : "+";
      more.setAttribute("aria-expanded", open.has(i));
    });
    first.append(more);
    line.append(first);
    for (const c of columns) {
      const cell = node("td", c.show(i), (c.n ? "n " : "") + c.key);
      cell.setAttribute("role", "cell");
      if (c.key === "problem") cell.dataset.op = D.ops[g(i, "op")][0];
      if (c.key === "problem" && problem(i)[1]) cell.append(node("small", problem(i)[1]));
      line.append(cell);
    }
    return line;
  };
  const draw = (all) => {
    const pages = Math.max(1, Math.ceil(view.length / size));
    page = Math.min(page, pages - 1);
    const shown = all ? view.slice(0, 400) : view.slice(page * size, (page + 1) * size);
    const lines = [];
    for (const i of shown) {
      lines.push(row(i));
      if (open.has(i)) lines.push(detail(i));
    }
    body.replaceChildren(...lines);
    $("count").textContent = view.length.toLocaleString("en") + " of " + C.time.length.toLocaleString("en") + " rows" + (all && view.length > 400 ? "; the first 400 are printed" : "");
    $("page-of").textContent = "page " + (page + 1) + " of " + pages;
    for (const b of $("pager").querySelectorAll("button")) {
      b.disabled = ["first", "back"].includes(b.dataset.go) ? page === 0 : page === pages - 1;
    }
  };
  const find = (text) => {
    if (!D) return;
    $("filters").reset();
    $("f-text").value = text;
    filter();
    $("facts").scrollIntoView();
    $("facts-box").focus({ preventScroll: true });
  };
  const save = () => {
    const quote = (v) => '"' + (typeof v === "string" && /^[=+\-@\t\r]/.test(v) ? "'" : "") + String(v ?? "").replaceAll('"', '""') + '"';
    const lines = [columns.map((c) => quote(c.name)).join(",")];
    for (const i of view) lines.push(columns.map((c) => quote(c.get(i))).join(","));
    const link = node("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = "facts.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const start = () => {
    C = D.columns;
    if (!D.groups.some((x) => x[G.calls].length)) columns.splice(columns.indexOf(total), 1);
    if (D.places.length < 2) columns.splice(2, 1);
    head();
    options(pick.op, D.ops.map((o) => o[0]));
    options(pick.place, D.places);
    options(pick.candidate, D.candidates.map((c) => c[0]));
    options(pick.status, D.statuses);
    const form = $("filters");
    form.hidden = false;
    $("pager").hidden = false;
    form.addEventListener("submit", (e) => e.preventDefault());
    form.addEventListener("reset", () => setTimeout(filter));
    let wait;
    for (const kind of ["input", "change"]) {
      form.addEventListener(kind, () => { clearTimeout(wait); wait = setTimeout(filter, 120); });
    }
    $("download").addEventListener("click", save);
    $("page-size").addEventListener("change", (e) => { size = Number(e.target.value); page = 0; draw(); });
    $("pager").addEventListener("click", (e) => {
      const go = e.target.dataset.go;
      if (!go) return;
      const last = Math.ceil(view.length / size) - 1;
      page = { first: 0, back: page - 1, next: page + 1, last }[go];
      draw();
    });
    addEventListener("beforeprint", () => draw(true));
    addEventListener("afterprint", () => draw());
    filter();
    document.documentElement.dataset.ready = "yes";
  };
  unpack().then((data) => { D = data; start(); }).catch((error) => {
    $("count").textContent = "This browser cannot unpack the table (" + error.message + "); the CSV export has all rows.";
  });
})();
