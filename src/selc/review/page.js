"use strict";
// Everything that the user wrote reaches the page by textContent, so that it stays text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  data.samples = unpacked(data.samples); // they lie by column: a page of 100,000 is a quarter as long
  const byId = new Map(data.samples.map((sample) => [sample.id, sample]));
  const storeKey = `selc-review-${data.run}`;
  const get = (id) => document.getElementById(id);
  const RESERVED = "ksduojngv"; // letters that mean something else, or may one day
  const PAGE = 24; // samples of a grid
  const LETTERS = 220; // of a text in the grid
  const STEPS = 500; // that can be taken back after a reload
  const ENOUGH = 10; // verdicts from which on a share is told
  const TIRED = 20; // labels in a row that were right: going on finds little
  const ZONES = { relabel: "relabel: the run would change it", review: "review: in doubt", keep: "keep: no better label known" };
  const FEW = 40; // classes that are all offered at once
  const LISTED = 60; // classes that a search lists

  let decided = new Map(); // sample id -> decision
  let history = []; // what undo takes back: steps of [sample id, the decision before or null]
  let grid = false;
  const selected = new Set(); // ids in the grid
  let at = 0; // place in `shown`
  let shown = data.samples;
  let unsaved = false; // since the last save to a file; matters only where the browser keeps nothing
  let keeps = true;

  const keyOf = new Map(); // class -> key
  const classOf = new Map(); // key -> class
  const free = [..."1234567890abcdefghijklmnopqrstuvwxyz"].filter((key) => !RESERVED.includes(key));
  const assign = (name, key) => {
    keyOf.set(name, key);
    classOf.set(key, name);
  };
  // A class that is called by a digit has that digit.
  for (const name of data.classes) if (/^[0-9]$/.test(name)) assign(name, name);
  const left = free.filter((key) => !classOf.has(key));
  for (const name of data.classes) if (!keyOf.has(name) && left.length) assign(name, left.shift());

  function unpacked(columns) {
    const link = (k) => (columns.link[k] == null ? undefined : data.links + (columns.link[k] || columns.id[k]));
    return columns.id.map((id, k) => {
      const key = String(columns.key[k]);
      const [nearer, alike] = data.near[key] ?? [null, []];
      return {
        id, key, nearer, alike, link: link(k),
        given: data.classes[columns.given[k]],
        suggested: data.classes[columns.suggested[k]],
        zone: data.zones[columns.zone[k]],
        confidence: columns.confidence[k],
        quality: columns.quality[k],
      };
    });
  }

  function isDecision(entry) {
    const texts = ["sample_id", "given", "suggested", "verdict"];
    return entry !== null && typeof entry === "object" && texts.every((key) => typeof entry[key] === "string")
      && ["keep", "suggested", "other", "drop", "skip"].includes(entry.verdict);
  }

  function restore() {
    try {
      const text = localStorage.getItem(storeKey);
      const saved = text === null ? { decisions: [], history: [] } : JSON.parse(text);
      decided = new Map(saved.decisions.filter(isDecision).map((entry) => [entry.sample_id, entry]));
      const steps = saved.history.map((step) => (typeof step[0] === "string" ? [step] : step));
      history = steps.filter((step) => step.every(
        ([id, before]) => typeof id === "string" && (before === null || isDecision(before))));
    } catch {
      decided = new Map();
      history = [];
    }
  }

  function persist() {
    unsaved = true;
    try {
      localStorage.setItem(storeKey, JSON.stringify({ decisions: [...decided.values()], history: history.slice(-STEPS) }));
    } catch {
      keeps = false;
      warn("This browser keeps nothing for this page: save decisions.json before you close it.");
    }
  }

  function warn(text) {
    get("warning").textContent = text;
    get("warning").hidden = !text;
  }

  function filter(stayOn) {
    const [name, zone, state, pair] = ["class", "zone", "state", "pair"].map((id) => get(id).value);
    const wanted = name === "" ? null : data.classes[Number(name)];
    shown = sorted().filter((sample) =>
      (wanted === null || sample.given === wanted || sample.suggested === wanted)
      && (!pair || pairOf(sample) === pair)
      && (!zone || sample.zone === zone)
      && (!state || decided.has(sample.id) === (state === "done")));
    const place = shown.findIndex((sample) => sample.id === stayOn);
    at = place >= 0 ? place : 0;
  }

  const pairOf = (sample) => JSON.stringify([sample.given, sample.suggested]);
  const orders = {
    quality: (a, b) => a.quality - b.quality,
    confidence: (a, b) => b.confidence - a.confidence,
    class: (a, b) => data.classes.indexOf(a.given) - data.classes.indexOf(b.given) || a.quality - b.quality,
    alike: (a, b) => (b.nearer ?? -Infinity) - (a.nearer ?? -Infinity),
  };
  let order = ["", data.samples]; // the last one asked for: sorting 100,000 takes a moment

  function sorted() {
    const by = get("sort").value;
    if (order[0] !== by) order = [by, by ? [...data.samples].sort(orders[by]) : data.samples];
    return order[1];
  }

  function nextOpen() {
    const open = (sample) => !decided.has(sample.id);
    const after = shown.findIndex((sample, place) => place > at && open(sample));
    return after >= 0 ? after : shown.findIndex(open);
  }

  function note(sample, verdict, label) { // returns what undo needs
    const before = [sample.id, decided.get(sample.id) ?? null];
    if (label !== null) verdict = label === sample.given ? "keep" : label === sample.suggested ? "suggested" : "other";
    const { given, suggested, confidence } = sample;
    decided.delete(sample.id); // so that the last verdict is the last one
    decided.set(sample.id, { sample_id: sample.id, given, suggested, confidence, verdict, label });
    return before;
  }

  const pageStart = () => Math.floor(at / PAGE) * PAGE;
  const onPage = () => shown.slice(pageStart(), pageStart() + PAGE);

  function decideAll(take) {
    const page = onPage();
    const picked = page.filter((sample) => (selected.size ? selected.has(sample.id) : !decided.has(sample.id)));
    const some = picked.filter((sample) => !take || sample.given !== sample.suggested);
    if (!some.length) return;
    history.push(some.map((sample) => note(sample, "", take ? sample.suggested : sample.given)));
    selected.clear();
    persist();
    if (page.every((sample) => decided.has(sample.id))) {
      const next = nextOpen();
      if (next >= 0) at = next;
    }
    filter(shown[at]?.id);
    render();
  }

  function decide(verdict, label) {
    const sample = shown[at];
    if (!sample) return;
    history.push([note(sample, verdict, label)]);
    persist();
    get("search").value = "";
    const next = nextOpen();
    const on = next >= 0 ? shown[next].id : sample.id;
    filter(on);
    render();
  }

  function undo() {
    const last = history.pop();
    if (!last) return;
    for (const [id, before] of last) {
      if (before === null) decided.delete(id);
      else decided.set(id, before);
    }
    const [id] = last[0];
    persist();
    filter(id);
    if (byId.has(id) && !(shown[at] && shown[at].id === id)) {
      for (const name of ["class", "pair", "zone", "state"]) get(name).value = ""; // show what was taken back
      filter(id);
    }
    render();
  }

  function walk(step) {
    const by = grid ? step * PAGE : step;
    at = Math.min(Math.max((grid ? pageStart() : at) + by, 0), Math.max(shown.length - 1, 0));
    selected.clear();
    get("search").value = "";
    render();
  }

  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  // Numbers and gaps stand at the right; dates and other short words are not broken.
  const kindOf = (value) => (value === "–" || !Number.isNaN(Number(value)) ? "n" : value.length <= 12 ? "short" : "");

  function fillTable(table, cells) {
    table.replaceChildren(...cells.map(([name, value]) => {
      const row = make("tr");
      const head = make("th", name);
      head.scope = "row";
      row.append(head, make("td", value, kindOf(value)));
      return row;
    }));
  }

  function fillTexts(box, texts) {
    box.replaceChildren(...texts.map(([name, value]) => {
      const text = make("p", undefined, "text");
      text.dir = "auto"; // by the text itself: the name of its column stands apart
      text.title = name;
      if (texts.length > 1) text.append(make("bdi", `${name}: `, "column"));
      text.append(value);
      return text;
    }));
  }

  function showPicture(image, url) {
    image.onload = () => image.classList.toggle("pixels", image.naturalWidth <= 64);
    image.src = url;
  }

  function describe(decision) {
    if (!decision) return "none yet";
    return { keep: "keep", drop: "drop", skip: "skipped" }[decision.verdict] ?? `change to ${decision.label}`;
  }

  // Rows of a table are compared cell by cell: the sample, and beside it what looks like it.
  function comparison(sample, columns, beside) {
    const table = make("table");
    const head = make("tr");
    head.append(make("td"), ...["this one", ...columns.map(({ id }) => id)].map((name) => {
      const cell = make("th", undefined, "n");
      cell.scope = "col";
      cell.append(make("bdi", name));
      return cell;
    }));
    const cells = data.tables[sample.key].map(([name, own], k) => {
      const row = make("tr");
      const first = make("th", name);
      first.scope = "row";
      row.append(first, ...[own, ...columns.map(({ key }) => beside[key][k])].map(
        (value) => make("td", value, kindOf(value))));
      return row;
    });
    table.append(head, ...cells);
    const box = make("div", undefined, "scroll");
    box.tabIndex = 0;
    box.append(table);
    return box;
  }

  function renderAlike(sample) {
    get("alike").replaceChildren(...sample.alike.map((group) => {
      const box = make("div");
      const title = make("h2", "look-alikes that are ");
      title.append(make("bdi", group.label, group.label === sample.given ? "is-given" : "is-suggested"));
      const list = make("ul");
      for (const { id, key } of group.rows) {
        const item = make("li");
        item.title = id;
        if (data.small[key]) {
          const image = make("img");
          image.alt = `look-alike ${id}`;
          showPicture(image, data.small[key]);
          item.append(image);
        } else if (data.texts[key]) {
          fillTexts(item, data.texts[key]);
        }
        if (item.childNodes.length) list.append(item);
      }
      box.append(title, list);
      const beside = data.beside[sample.key];
      const columns = beside ? group.rows.filter(({ key }) => beside[key]) : [];
      if (columns.length) box.append(comparison(sample, columns, beside));
      return box;
    }));
  }

  function found() {
    const words = get("search").value.trim().toLowerCase();
    if (!words) return data.classes.length <= FEW ? data.classes : [];
    const hits = data.classes.filter((name) => name.toLowerCase().includes(words));
    const rank = (name) => (name.toLowerCase() === words ? 0 : name.toLowerCase().startsWith(words) ? 1 : 2);
    return hits.sort((a, b) => rank(a) - rank(b)).slice(0, LISTED);
  }

  function renderChoices() {
    const sample = shown[at];
    const decision = sample && decided.get(sample.id);
    get("choices").replaceChildren(...found().map((name) => {
      const button = make("button");
      button.type = "button";
      button.append(make("bdi", name));
      if (keyOf.has(name)) button.append(" ", make("kbd", keyOf.get(name)));
      button.classList.toggle("chosen", Boolean(decision && decision.label === name));
      button.addEventListener("click", () => decide("other", name));
      return button;
    }));
  }

  // Wilson's interval of a share, 95 %.
  function interval(hits, count) {
    const z = 1.96;
    const middle = (hits + z * z / 2) / (count + z * z);
    const half = z / (count + z * z) * Math.sqrt(hits * (count - hits) / count + z * z / 4);
    return [Math.max(0, middle - half), Math.min(1, middle + half)];
  }

  const percent = (share) => `${Math.round(100 * share)} %`;

  function measured() {
    const judged = [...decided.values()].filter((entry) => entry.verdict !== "skip" && byId.has(entry.sample_id));
    const changes = judged.filter((entry) => byId.get(entry.sample_id).zone === "relabel");
    const said = [];
    if (changes.length >= ENOUGH) {
      const right = changes.filter((entry) => entry.verdict === "suggested").length;
      const [low, high] = interval(right, changes.length);
      const left = data.samples.filter((sample) => sample.zone === "relabel" && !decided.has(sample.id)).length;
      said.push(`Of ${changes.length} changes that you checked, ${right} were right: ${percent(right / changes.length)} `
        + `(between ${percent(low)} and ${percent(high)}).`);
      if (left && low >= 0.8) said.push(`It pays to stop checking them: selc apply takes over the other ${left} here.`);
      else if (left && high < 0.5) said.push("Most are wrong: judge them all, or use selc apply --human-only.");
    }
    const last = judged.filter((entry) => byId.get(entry.sample_id).zone !== "relabel").slice(-TIRED);
    if (last.length === TIRED) {
      const wrong = last.filter((entry) => entry.verdict !== "keep").length;
      said.push(`Of the last ${TIRED} doubtful labels ${wrong} were wrong`
        + (wrong <= 1 ? ": going on would find little, you may stop." : "."));
    }
    get("measured").textContent = said.join(" ");
    get("measured").hidden = !said.length;
  }

  // As much of a text as a card has room for, in whole words.
  const beginning = (text) => (text.length <= LETTERS ? text : `${text.slice(0, LETTERS).replace(/\s+\S*$/, "")} …`);

  const pictureOf = (sample) => data.pictures[sample.key] ?? sample.link;

  function card(sample) {
    const item = make("li", undefined, decided.has(sample.id) ? "item done" : "item");
    const button = make("button");
    button.type = "button";
    button.dataset.id = sample.id;
    button.setAttribute("aria-pressed", String(selected.has(sample.id)));
    const picture = pictureOf(sample);
    if (picture) {
      const image = make("img");
      image.alt = "";
      image.loading = "lazy";
      showPicture(image, picture);
      button.append(image);
    } else {
      const texts = data.texts[sample.key] ?? [];
      const cells = data.tables[sample.key] ?? [];
      const text = texts.length ? texts.map(([name, value], k) => (k ? `${name}: ${value}` : value)).join("\n")
        : cells.slice(0, 5).map(([name, value]) => `${name} ${value}`).join("\n") || sample.id;
      button.append(make("span", beginning(text), "text what"));
    }
    const given = make("span", "given ", "what given");
    given.append(make("bdi", sample.given));
    const other = make("span", sample.given === sample.suggested ? "no better label known" : "suggested ", "what suggested");
    if (sample.given !== sample.suggested) other.append(make("bdi", sample.suggested));
    const decision = decided.get(sample.id);
    const end = make("span", decision ? describe(decision) : `quality ${sample.quality.toFixed(2)}`, "what");
    button.append(given, other, end);
    button.addEventListener("click", () => {
      if (!selected.delete(sample.id)) selected.add(sample.id);
      button.setAttribute("aria-pressed", String(selected.has(sample.id)));
      tellChosen();
    });
    const open = make("button", "⤢", "open");
    open.type = "button";
    open.setAttribute("aria-label", `Open ${sample.id} alone`);
    open.addEventListener("click", () => {
      at = shown.indexOf(sample);
      show(false);
    });
    item.append(button, open);
    return item;
  }

  function tellChosen() {
    const open = onPage().filter((sample) => !decided.has(sample.id)).length;
    get("chosen").textContent = selected.size ? `${selected.size} chosen` : `none chosen: the buttons judge all ${open} that are open`;
  }

  function renderGrid() {
    get("cards").replaceChildren(...onPage().map(card));
    get("cards").classList.toggle("worded", !onPage().some(pictureOf));
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    get("page-place").textContent = `page ${Math.floor(at / PAGE) + 1} / ${pages}`;
    get("page-back").disabled = pageStart() === 0;
    get("page-next").disabled = pageStart() + PAGE >= shown.length;
    get("undo-all").disabled = history.length === 0;
    tellChosen();
  }

  function show(asGrid) {
    grid = asGrid;
    selected.clear();
    get("view").setAttribute("aria-pressed", String(grid));
    render();
  }

  function enlarge() {
    const sample = shown[at];
    const picture = sample && (sample.link ?? data.pictures[sample.key]);
    if (!picture || grid) return;
    const image = get("large-picture");
    image.onerror = () => { // the file is not where it was: what is in the page is shown
      image.onerror = null;
      if (data.pictures[sample.key]) image.src = data.pictures[sample.key];
    };
    showPicture(image, picture);
    get("large").showModal();
  }

  function render() {
    const judged = [...decided.keys()].filter((id) => byId.has(id)).length;
    measured();
    get("hint").hidden = decided.size > 0;
    get("progress").textContent = `${judged} of ${data.samples.length} judged`
      + (judged === data.samples.length ? ": all done, save them" : "");
    get("bar").value = data.samples.length ? judged / data.samples.length : 1;
    get("undo").disabled = history.length === 0;
    const sample = shown[at];
    get("card").hidden = !sample || grid;
    get("grid").hidden = !sample || !grid;
    get("empty").hidden = Boolean(sample);
    if (!sample) {
      get("empty").textContent = "No sample passes these filters.";
      return;
    }
    if (grid) {
      renderGrid();
      return;
    }
    const decision = decided.get(sample.id);
    const picture = pictureOf(sample);
    get("zoom").hidden = !picture;
    if (picture) showPicture(get("picture"), picture);
    const texts = data.texts[sample.key] ?? [];
    get("texts").hidden = texts.length === 0;
    fillTexts(get("texts"), texts);
    const cells = data.tables[sample.key] ?? [];
    get("cells").hidden = cells.length === 0;
    fillTable(get("cells"), cells);
    get("nothing").hidden = Boolean(picture) || cells.length + texts.length > 0;
    get("sample").textContent = sample.id;
    get("given").textContent = sample.given;
    const known = sample.given !== sample.suggested;
    get("suggested").textContent = known ? sample.suggested : "";
    get("confidence").textContent = known ? `(confidence ${sample.confidence.toFixed(2)})` : "no better label known";
    get("zone-of").textContent = ZONES[sample.zone];
    get("quality-of").textContent = `${sample.quality.toFixed(2)}, how well the given label fits`;
    get("verdict").textContent = describe(decision);
    const same = sample.given === sample.suggested;
    get("accept").disabled = same;
    const chosen = { keep: "keep", accept: "suggested", drop: "drop", skip: "skip" };
    for (const [id, verdict] of Object.entries(chosen)) {
      get(id).classList.toggle("chosen", Boolean(decision && decision.verdict === verdict));
    }
    get("place").textContent = `${at + 1} / ${shown.length}`;
    get("back").disabled = at === 0;
    get("next").disabled = at === shown.length - 1;
    renderChoices();
    renderAlike(sample);
  }

  function save() {
    const order = new Map(data.samples.map((sample, place) => [sample.id, place]));
    const last = data.samples.length;
    const decisions = [...decided.values()].sort(
      (a, b) => (order.get(a.sample_id) ?? last) - (order.get(b.sample_id) ?? last));
    const content = { format: data.format, run: data.run, samples: data.total, decisions };
    const url = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1), "\n"], { type: "application/json" }));
    const link = make("a");
    link.href = url;
    link.download = "decisions.json";
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    unsaved = false;
    get("saved").textContent = `decisions.json holds ${decisions.length} verdicts, and is where your browser puts downloads.`
      + ` Next: ${data.apply}`;
    get("saved").hidden = false;
  }

  async function open(file) {
    let content;
    try {
      content = JSON.parse(await file.text());
    } catch {
      warn("The file must be a decisions.json that was saved from a review page; this one is none.");
      return;
    }
    if (!content || content.format !== data.format || content.run !== data.run || !Array.isArray(content.decisions)) {
      warn("The file must be a decisions.json of this run; this one belongs to another run.");
      return;
    }
    const loaded = [];
    for (const entry of content.decisions.filter(isDecision)) {
      const before = decided.get(entry.sample_id) ?? null;
      if (JSON.stringify(before) === JSON.stringify(entry)) continue;
      loaded.push([entry.sample_id, before]);
      decided.set(entry.sample_id, entry);
    }
    if (loaded.length) history.push(loaded);
    warn("");
    persist();
    const next = nextOpen();
    if (next >= 0) at = next;
    filter(shown[at]?.id);
    render();
  }

  const actions = {
    keep: () => (grid ? decideAll(false) : decide("keep", shown[at]?.given ?? null)),
    accept: () => {
      if (grid) return decideAll(true);
      const sample = shown[at];
      if (sample && sample.given !== sample.suggested) decide("suggested", sample.suggested);
    },
    drop: () => grid || decide("drop", null),
    skip: () => grid || decide("skip", null),
    undo,
    back: () => walk(-1),
    next: () => walk(1),
    save,
    view: () => show(!grid),
    ask: () => get("help").showModal(),
    zoom: enlarge,
    "accept-all": () => decideAll(true),
    "keep-all": () => decideAll(false),
    "undo-all": undo,
    "page-back": () => walk(-1),
    "page-next": () => walk(1),
  };
  const keys = {
    k: "keep", s: "accept", Enter: "accept", d: "drop", " ": "skip", u: "undo", ArrowLeft: "back", ArrowRight: "next",
    g: "view", v: "zoom", "?": "ask",
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    const target = event.target;
    if (target === get("search")) {
      if (event.key === "Escape") {
        target.value = "";
        target.blur();
        renderChoices();
      } else if (event.key === "Enter" && !event.repeat) {
        event.preventDefault();
        const first = target.value.trim() ? found()[0] : undefined;
        if (first !== undefined) {
          target.blur();
          decide("other", first);
        }
      }
      return;
    }
    if (target.closest("input, select, textarea")) return;
    if (target.closest("button") && (event.key === "Enter" || event.key === " ")) return; // it presses the button
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const walking = key === "ArrowLeft" || key === "ArrowRight";
    if (event.repeat && !walking) { // a key that is held down judges one sample
      if (key in keys) event.preventDefault();
      return;
    }
    if (Object.hasOwn(keys, key)) {
      event.preventDefault();
      actions[keys[key]]();
    } else if (!grid && (key === "o" || key === "/")) {
      event.preventDefault();
      get("search").focus();
    } else if (!grid && classOf.has(key)) {
      event.preventDefault();
      decide("other", classOf.get(key));
    }
  });

  for (const [id, act] of Object.entries(actions)) get(id).addEventListener("click", act);
  // After a click by mouse or finger the keys go to the page again, and not to the button.
  document.addEventListener("click", (event) => {
    if (event.detail > 0) event.target.closest("button")?.blur();
  });
  get("search").addEventListener("input", renderChoices);
  for (const id of ["class", "pair", "zone", "state", "sort"]) {
    get(id).addEventListener("change", (event) => {
      filter(id === "sort" ? undefined : shown[at]?.id);
      selected.clear();
      event.target.blur();
      render();
    });
  }
  get("open").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) await open(file);
    event.target.value = "";
    event.target.blur();
  });
  window.addEventListener("storage", (event) => { // the same page in another tab
    if (event.key !== storeKey) return;
    restore();
    filter(shown[at]?.id);
    render();
  });
  window.addEventListener("beforeunload", (event) => {
    if (!keeps && unsaved) event.preventDefault();
  });

  data.classes.forEach((name, number) => {
    const option = make("option", name);
    option.value = String(number);
    get("class").append(option);
  });
  const pairs = new Map();
  for (const sample of data.samples) {
    if (sample.given !== sample.suggested) pairs.set(pairOf(sample), (pairs.get(pairOf(sample)) ?? 0) + 1);
  }
  for (const [pair, count] of [...pairs].sort((a, b) => b[1] - a[1]).slice(0, 50)) {
    const option = make("option", `${JSON.parse(pair).join(" → ")} (${count})`);
    option.value = pair;
    get("pair").append(option);
  }
  get("run").textContent = data.name;
  restore();
  filter();
  at = Math.max(0, shown.findIndex((sample) => !decided.has(sample.id)));
  render();
})();
