"use strict";
// Lists the findings: search, filters, order, pages of 50 rows, so that any number of them stays quick.
// Values are only ever set as text; nothing is fetched and nothing is stored.
(() => {
  const PAGE = 50, PRINTED = 1000;
  const rows = JSON.parse(document.getElementById("rows-json").textContent);
  const body = document.getElementById("rows");
  if (!body) return;
  const at = (id) => document.getElementById(id);
  const RANK = { critical: 0, high: 1, medium: 2, info: 3 };
  const SEEN = { new: 0, reopened: 1, raised: 2, changed: 3, still_open: 4 };
  const words = (name) => name.replaceAll("_", " ");

  const make = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.append(...children);
    return node;
  };
  // Foreign text keeps its direction to itself.
  const foreign = (text) => make("bdi", "", text);

  rows.forEach((row, index) => {
    row.index = index;
    row.hay = [row.id, row.kind, row.title, row.reference, row.key, row.local.amount, row.provider.amount,
      row.local.ids, row.provider.ids, row.local.status, row.provider.status, row.currency, row.at_risk,
      row.rule, row.suggestion, row.evidence].flat(2).join("\n").toLowerCase();
  });

  const state = { sort: "", down: false, page: 0, all: false, open: new Set(), shown: rows };

  const KEYS = {
    severity: (row) => RANK[row.severity],
    kind: (row) => row.title,
    reference: (row) => row.reference,
    risk: (row) => (row.currency ? row.risk_minor : null),
    age: (row) => row.age_days,
    seen: (row) => SEEN[row.seen],
  };
  const { compare: inWords } = new Intl.Collator("en", { numeric: true });
  // What has no value stands last either way. Amounts of different currencies have no order: they are
  // grouped by currency first.
  const compare = (a, b) => {
    if (!state.sort) return a.index - b.index;
    const key = KEYS[state.sort], x = key(a), y = key(b), turn = state.down ? -1 : 1;
    if (x === null || y === null) return (x === null) - (y === null) || a.index - b.index;
    if (state.sort === "risk" && a.currency !== b.currency) return a.currency < b.currency ? -1 : 1;
    const order = typeof x === "number" ? x - y : inWords(x, y);
    return order * turn || a.index - b.index;
  };

  const fill = (id, name, label) => {
    const counts = new Map();
    for (const row of rows) counts.set(row[id], (counts.get(row[id]) ?? 0) + 1);
    const select = at(id);
    select.append(new Option("All", ""));
    for (const [value, count] of counts) select.append(new Option(`${label(value)} (${count})`, value));
    select.disabled = counts.size < 2;
  };
  const titles = new Map(rows.map((row) => [row.kind, row.title]));
  fill("kind", "Kind", (value) => titles.get(value));
  fill("severity", "Severity", words);
  fill("seen", "Seen", words);
  fill("state", "State", words);

  // What concerns no payment (an unreadable row) has neither side.
  const side = (label, it, other) => {
    const cell = make("td", "num");
    cell.dataset.label = label;
    if (!it.present && !other.present) return cell;
    if (!it.present) cell.append(make("span", "absent", "nothing"));
    else cell.append(it.amount || make("span", "absent", "no one amount"), make("span", "under", foreign(words(it.status))));
    return cell;
  };

  const line = (row) => {
    const tr = make("tr", "row");
    const opener = make("button", "open-row", row.title);
    opener.type = "button";
    opener.setAttribute("aria-expanded", "false");
    const risk = make("td", "num", row.currency ? `${row.currency} ${row.at_risk}` : "");
    risk.dataset.label = "At risk";
    const age = make("td", "num", row.age);
    age.dataset.label = "Age";
    age.title = row.at;
    const seen = make("td", "seen", words(row.seen), make("span", "under", words(row.state)));
    seen.dataset.label = "Seen";
    const reference = make("td", "reference code", foreign(row.reference || row.provider.ids[0] || ""));
    reference.dataset.label = "Reference";
    tr.append(make("td", "severity", make("span", `pill ${row.severity}`, row.severity)),
      make("td", "break", opener, make("span", "under id code", row.id)),
      reference, side("Ours", row.local, row.provider), side("Provider", row.provider, row.local), risk, age, seen);
    const toggle = () => {
      const open = !state.open.delete(row.id);
      if (open) state.open.add(row.id);
      show(tr, row, opener, open);
    };
    opener.addEventListener("click", toggle);
    if (state.all || state.open.has(row.id)) queueMicrotask(() => show(tr, row, opener, true));
    return tr;
  };

  const show = (tr, row, opener, open) => {
    const next = tr.nextElementSibling;
    if (next?.classList.contains("more")) next.remove();
    tr.classList.toggle("open", open);
    opener.setAttribute("aria-expanded", String(open));
    if (open) tr.after(details(row));
  };

  const details = (row) => {
    const fields = make("table", "fields");
    const head = make("tr", "", make("th", "", ""), make("th", "", "Ours"), make("th", "", "Provider"));
    const lines = make("tbody", "");
    const add = (name, ours, theirs, differs) => {
      if (!ours && !theirs) return;
      lines.append(make("tr", differs ? "differs" : "", make("th", "", name),
        make("td", "", foreign(ours || "nothing")), make("td", "", foreign(theirs || "nothing"))));
    };
    const named = new Set(row.diff.map(([name]) => name));
    for (const [name, ours, theirs] of row.diff) add(name, ours, theirs, true);
    if (!named.has("amount")) add("amount", row.local.amount, row.provider.amount, false);
    if (!named.has("status")) add("status", words(row.local.status), words(row.provider.status), false);
    add("time", row.local.at, row.provider.at, false);
    add("ids", row.local.ids.join("\n"), row.provider.ids.join("\n"), false);
    fields.append(make("thead", "", head), lines);

    const copy = make("button", "copy", "Copy");
    copy.type = "button";
    copy.addEventListener("click", () => copyText(row.id, copy));
    const left = make("div", "", make("h3", "", "Both sides"), fields);
    const right = make("div", "",
      make("h3", "", "What to do"), make("p", "say", foreign(row.suggestion)),
      make("h3", "", "Why it is a finding"), make("p", "say", foreign(row.rule)),
      make("h3", "", "Name"), make("p", "", make("code", "", row.id), copy));
    if (row.key) right.append(make("h3", "", "Idempotency key"), make("p", "", make("code", "", foreign(row.key))));
    if (row.evidence.length) {
      const list = make("ul", "");
      for (const [from, place, text] of row.evidence) {
        list.append(make("li", "", `${from} `, make("code", "", foreign(place)), text ? ": " : "", foreign(text)));
      }
      left.append(make("h3", "", "Evidence"), list);
    }
    const cell = make("td", "", make("div", "grid", left, right));
    cell.colSpan = 8;
    return make("tr", "more", cell);
  };

  const copyText = (text, button) => {
    const said = (word) => { button.textContent = word; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
    const byHand = () => {
      const range = document.createRange();
      range.selectNodeContents(button.previousElementSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      said(document.execCommand("copy") ? "Copied" : "Selected");
    };
    if (!navigator.clipboard) return byHand();
    navigator.clipboard.writeText(text).then(() => said("Copied"), byHand);
  };

  const draw = (size = PAGE) => {
    const pages = Math.max(1, Math.ceil(state.shown.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const from = size === PAGE ? state.page * PAGE : 0;
    const part = state.shown.slice(from, from + size);
    body.replaceChildren(...part.map(line));
    const number = (n) => n.toLocaleString("en");
    at("count").textContent = part.length === 0 ? "No finding fits these filters."
      : `${number(from + 1)} to ${number(from + part.length)} of ${number(state.shown.length)}`
        + (state.shown.length < rows.length ? ` that fit, ${number(rows.length)} in all` : "");
    at("page").textContent = `Page ${number(state.page + 1)} of ${number(pages)}`;
    at("previous").disabled = state.page === 0;
    at("next").disabled = state.page >= pages - 1;
    document.querySelector(".pager").hidden = pages < 2;
  };

  const update = () => {
    const text = at("search").value.trim().toLowerCase();
    const wanted = ["kind", "severity", "seen", "state"].map((id) => [id, at(id).value]).filter(([, value]) => value);
    state.shown = rows.filter((row) => wanted.every(([id, value]) => row[id] === value) && row.hay.includes(text));
    state.shown.sort(compare);
    state.page = 0;
    draw();
  };

  at("filters").addEventListener("input", update);
  at("filters").addEventListener("reset", () => setTimeout(update));
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("previous").addEventListener("click", () => { state.page -= 1; draw(); });
  at("next").addEventListener("click", () => { state.page += 1; draw(); });
  at("details").addEventListener("click", () => {
    state.all = !state.all;
    if (!state.all) state.open.clear();
    at("details").setAttribute("aria-pressed", String(state.all));
    at("details").textContent = state.all ? "Hide all details" : "Show all details";
    draw();
  });
  for (const head of document.querySelectorAll("th[data-sort]")) {
    head.addEventListener("click", () => {
      const name = head.dataset.sort;
      // The first click shows what matters most: large and old first, words from A.
      if (state.sort === name) state.down = !state.down;
      else [state.sort, state.down] = [name, name === "risk" || name === "age"];
      for (const other of document.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      update();
    });
  }
  addEventListener("beforeprint", () => draw(PRINTED));
  addEventListener("afterprint", () => draw());

  // A link to report.html#RB-... opens that finding.
  const named = decodeURIComponent(location.hash.slice(1));
  if (rows.some((row) => row.id === named)) {
    at("search").value = named;
    state.open.add(named);
  }
  update();
})();
