// The page's own script: theme, times in the viewer's zone, polling that stops while nobody looks, charts, dialogs. Without it the views still read.
"use strict";
(() => {
  const TICK_MS = 5000, SLOWEST_MS = 30000;
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("dblog-theme"); } catch { return null; } })();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  // ---- times
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const written = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const zoned = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const seconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" });
  function duration(s) {
    if (s < 60) return `${Math.max(0, Math.round(s))}\u202fs`;
    for (const [unit, name, lower, small] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]])
      if (s >= unit) { const rest = Math.floor((s % unit) / lower); return `${Math.floor(s / unit)}\u202f${name}` + (rest && unit > 60 ? ` ${rest}\u202f${small}` : ""); }
  }
  function localTimes(within) {
    for (const each of within.querySelectorAll("time[datetime]")) {
      const at = new Date(each.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      if (each.dataset.ago) { each.textContent = `${duration(Date.now() / 1000 - Number(each.dataset.ago))} ago`; each.title = zoned.format(at); }
      else { each.textContent = written.format(at); each.title = zoned.format(at); }
    }
  }
  setInterval(() => { for (const each of document.querySelectorAll("time[data-ago]")) each.textContent = `${duration(Date.now() / 1000 - Number(each.dataset.ago))} ago`; }, 1000);

  // ---- messages
  function toast(text, isError) {
    const box = document.getElementById("messages"), item = document.createElement("div");
    item.className = isError ? "toast error" : "toast";
    const words = document.createElement("span");
    words.textContent = text;
    const close = document.createElement("button");
    close.type = "button"; close.textContent = "×"; close.setAttribute("aria-label", "Close this message");
    close.onclick = () => item.remove();
    item.append(words, close);
    box.prepend(item);
    while (box.children.length > 4) box.lastChild.remove();
    setTimeout(() => item.remove(), isError ? 30000 : 8000);
  }
  function sentence(xhr) {
    const text = (xhr.responseText || "").trim();
    try { return JSON.parse(text).message || text; } catch { return text.startsWith("<") ? "" : text; }
  }

  // ---- polling: one tick for all parts, slower while the worker does not answer
  let wait = TICK_MS, lostAt = 0, run = "";
  const banner = () => document.getElementById("lost");
  function lost(what) {
    lostAt ||= Date.now();
    wait = Math.min(SLOWEST_MS, wait * 1.6);
    banner().hidden = false;
    banner().textContent = `${what} What you see is of ${duration((Date.now() - lostAt) / 1000 + TICK_MS / 1000)} ago; this page tries again by itself.`;
  }
  function found(itsRun) {
    if (lostAt) {
      toast(run && itsRun && run !== itsRun ? "The worker is back. It has been restarted, so its charts begin again." : "The worker answers again.");
      banner().hidden = true;
    }
    lostAt = 0; wait = TICK_MS;
    if (itsRun) run = itsRun;
  }
  function selecting() { const chosen = getSelection(); return chosen && !chosen.isCollapsed && document.getElementById("live")?.contains(chosen.anchorNode); }
  function tick() {
    if (!document.hidden) {
      const waiting = document.querySelector("[data-reload]");
      if (waiting) fetch(location.href, { headers: { "HX-Request": "true" } }).then((answer) => { if (answer.status !== 503) location.reload(); }, () => {});
      else if (!selecting()) document.body.dispatchEvent(new Event("tick"));
      drawAll();
    }
    setTimeout(tick, wait);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) document.body.dispatchEvent(new Event("tick")); });

  // ---- charts
  let reach = "5m";
  const plots = new Map();
  const names = { create: "inserts", update: "updates", delete: "deletes", dumped: "dumped", acknowledged: "acknowledged", bytes: "bytes", lag_s: "lag", behind_bytes: "unread log" };
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  function short(value, unit) {
    if (value === null || value === undefined) return "";
    const base = unit.startsWith("B") ? 1024 : 1000, suffixes = unit.startsWith("B") ? ["", "Ki", "Mi", "Gi", "Ti"] : ["", "k", "M", "G", "T"];
    let index = 0, left = Math.abs(value);
    while (left >= base && index < 4) { left /= base; index += 1; }
    return `${value < 0 ? "-" : ""}${left < 10 && left % 1 ? left.toFixed(1) : Math.round(left)}${suffixes[index] ? "\u202f" + suffixes[index] : ""}`;
  }
  async function drawAll(always) {
    const wanted = new Map();
    for (const figure of document.querySelectorAll("[data-chart]")) {
      const box = figure.getBoundingClientRect();
      if (box.bottom < -200 || box.top > innerHeight + 400) continue;
      const step = { "5m": 5, "1h": 30, "24h": 300 }[reach] * 1000;
      if (!always && Date.now() - (figure.drawnAt || 0) < step * 0.9) continue;
      (wanted.get(figure.dataset.chart) || wanted.set(figure.dataset.chart, []).get(figure.dataset.chart)).push(figure);
    }
    for (const [url, figures] of wanted) {
      try {
        const answer = await fetch(`${url}?reach=${reach}`, { headers: { Accept: "application/json" } });
        if (!answer.ok) continue;
        const data = await answer.json();
        for (const figure of figures) draw(figure, data);
      } catch { return; }
    }
  }
  function draw(figure, data) {
    figure.drawnAt = Date.now();
    const shown = figure.dataset.series.split(","), place = figure.querySelector(".plot"), unit = figure.dataset.unit;
    const count = data.series[shown[0]].length;
    const times = Array.from({ length: count }, (_, at) => data.end_s - (count - 1 - at) * data.step_s);
    const rows = [times, ...shown.map((each) => data.series[each])];
    const isEmpty = shown.every((each) => data.series[each].every((value) => value === null));
    const key = `${isDark()}|${reach}|${place.clientWidth}|${isEmpty}`;
    if (plots.get(figure)?.key === key && !isEmpty) { plots.get(figure).plot.setData(rows); return; }
    plots.get(figure)?.plot?.destroy();
    place.replaceChildren();
    if (isEmpty) {
      const nothing = document.createElement("div");
      nothing.className = "nothing"; nothing.textContent = "Nothing has been measured in this time.";
      place.append(nothing); plots.set(figure, { key }); return;
    }
    const colours = ["--c1", "--c2", "--c3", "--c4"].map(css), legend = figure.querySelector(".legend");
    legend.replaceChildren(...[...shown, "when"].map((each, at) => { const item = document.createElement("span"); item.className = at < shown.length ? `c${at + 1}` : "when"; return item; }));
    const told = (at, of) => {  // the legend names the series, and beside a pointer their values and the time
      shown.forEach((each, n) => { legend.children[n].textContent = at === null ? (shown.length > 1 ? names[each] : "") : `${shown.length > 1 ? names[each] + " " : ""}${of[n + 1][at] === null ? "unknown" : short(of[n + 1][at], unit) + (unit.startsWith("/") ? "" : "\u202f") + unit}`; });
      legend.lastChild.textContent = at === null ? "" : seconds.format(new Date(of[0][at] * 1000));
    };
    told(null);
    const axis = { stroke: css("--faint"), grid: { stroke: css("--line-soft"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const plot = new uPlot({
      width: place.clientWidth, height: 170, legend: { show: false }, cursor: { y: false, points: { size: 6 } }, padding: [8, 8, 0, 0],
      scales: { x: { time: true, range: () => [times[0], times[count - 1]] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 26, space: 70, values: (_, splits) => splits.map((each) => clock.format(new Date(each * 1000))) }, { ...axis, size: 52, values: (_, splits) => splits.map((each) => short(each, unit)) }],
      series: [{}, ...shown.map((each, at) => ({ label: names[each], stroke: colours[at], width: 1.75, points: { show: false }, fill: shown.length === 1 ? colours[at] + "22" : undefined }))],
      hooks: { setCursor: [(u) => told(u.cursor.idx ?? null, u.data)] },
    }, rows, place);
    plots.set(figure, { key, plot });
  }
  let resized;
  let scrolled;
  addEventListener("scroll", () => { clearTimeout(scrolled); scrolled = setTimeout(() => drawAll(), 100); }, { passive: true });
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => drawAll(true), 150); });

  // ---- htmx: forms as JSON, a digest of what is shown, refusals as messages, open details stay open
  const digests = new Map();
  document.addEventListener("DOMContentLoaded", () => {
    htmx.defineExtension("dblog", {
      onEvent(name, event) {
        const { elt, xhr } = event.detail;
        if (name === "htmx:configRequest") {
          if (event.detail.verb === "post") event.detail.headers["Content-Type"] = "application/json";
          else if (elt.id === "live" && digests.has(elt)) event.detail.headers["X-Dblog-Seen"] = digests.get(elt);
          event.detail.path = elt.id === "live" && elt.dataset.here !== undefined ? location.pathname + location.search : event.detail.path;
        } else if (name === "htmx:afterRequest" && xhr) {
          if (xhr.status && xhr.status !== 503) found(xhr.getResponseHeader("X-Dblog-Run"));
          if (elt.id === "live" && xhr.getResponseHeader("X-Dblog-Seen")) digests.set(elt, xhr.getResponseHeader("X-Dblog-Seen"));
        } else if (name === "htmx:responseError") {
          const said = sentence(xhr);
          if (xhr.status === 503 && elt.id === "live") lost(said || "The worker does not take requests at the moment.");
          else if (xhr.status === 401) toast("Your login is not valid any more: load the page again to give it anew.", true);
          else toast(said || `The worker answered ${xhr.status}.`, true);
        } else if (name === "htmx:sendError" || name === "htmx:timeout") {
          lost("The worker does not answer: it may be restarting, or the network is away.");
          if (event.detail.requestConfig?.verb === "post") toast("The worker did not answer, so it is not known whether it has done this. See what is shown here once it is back.", true);
        } else if (name === "htmx:beforeSwap") {
          opened = new Set([...document.querySelectorAll("#live details[open][id]")].map((each) => each.id));
        } else if (name === "htmx:afterSwap") {
          for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
          arrived(event.detail.target || document);
        }
        return true;
      },
      encodeParameters(xhr, parameters) {
        xhr.overrideMimeType("text/html");
        const fields = {};
        for (const [name, value] of parameters.entries()) fields[name] = name in fields ? [].concat(fields[name], value) : value;
        return JSON.stringify(fields);
      },
    });
    arrived(document);
    const theme = document.getElementById("theme");
    theme.onclick = () => { root.dataset.theme = isDark() ? "light" : "dark"; try { localStorage.setItem("dblog-theme", root.dataset.theme); } catch { /* no storage */ } drawAll(true); };
    document.getElementById("zone").textContent = zone;
    for (const group of document.querySelectorAll(".segments")) group.addEventListener("click", (event) => {
      const button = event.target.closest("[data-reach]");
      if (!button) return;
      reach = button.dataset.reach;
      for (const each of group.children) each.setAttribute("aria-pressed", String(each === button));
      drawAll(true);
    });
    const search = document.querySelector("[data-search]");
    if (search) { let typed; search.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(() => seek(search), 250); }); }
    drawAll(true);
    setTimeout(tick, wait);
  });
  let opened = new Set();
  function seek(search) {
    const form = search.form, address = new URL(form.action || location.href, location.href);
    for (const [name, value] of new FormData(form)) if (value) address.searchParams.set(name, value); else address.searchParams.delete(name);
    history.replaceState(null, "", address);
    const live = document.getElementById("live");
    live.dataset.here = "";
    digests.delete(live);
    document.body.dispatchEvent(new Event("changed"));
  }
  function arrived(within) {
    localTimes(within);
    const dialog = document.querySelector("#dialog dialog:not([open])");
    if (dialog) {
      dialog.showModal();
      dialog.addEventListener("close", () => dialog.remove());
      dialog.addEventListener("click", (event) => { if (event.target === dialog || event.target.closest("[data-close]")) dialog.close(); });
    }
    for (const said of document.querySelectorAll("[data-toast]")) { toast(said.dataset.toast, said.dataset.error === "true"); said.closest("dialog")?.close(); said.remove(); }
    for (const area of within.querySelectorAll("[data-file]")) area.onchange = () => area.files[0]?.text().then((text) => { document.getElementById(area.dataset.file).value = text; });
  }

  // ---- keys
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    if (event.key === "/") { const search = document.querySelector("[data-search]"); if (search) { event.preventDefault(); search.focus(); search.select(); } }
    else if (event.key === "g") location.assign("/ui");
    else if (event.key === "t") document.getElementById("theme").click();
  });
})();
