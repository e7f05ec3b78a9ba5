// Records that streams bring: a search as it goes on, and new records as they come.
"use strict";
(() => {
  const SHOWN_MAX = 500;
  const list = document.getElementById("records");
  const search = document.getElementById("search");
  const tail = document.getElementById("tail");
  if (!list || !window.EventSource) return;

  const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
  const size = (number) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (number >= 1024 && at < units.length - 1) { number /= 1024; at += 1; }
    return (at === 0 || number >= 100 ? number.toFixed(0) : number.toFixed(1)) + " " + units[at];
  };

  function make(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function part(name, content) {
    const made = make("div", "part");
    let told = content.kind;
    if (content.size_bytes) told += ", " + size(content.size_bytes);
    if (content.is_cut) told += ", shown in part";
    const head = make("div", "part-name", name + " ");
    head.append(make("span", "muted", told));
    made.append(head);
    if (content.kind === "null") made.append(make("p", "muted null", "null"));
    else {
      const text = make("pre", "content", content.text);
      text.tabIndex = 0;
      made.append(text);
    }
    if (content.fault) made.append(make("p", "muted", "Shown as hex, because " + content.fault + "."));
    return made;
  }

  function record(row) {
    const made = make("li", row.mark ? "record marked" : "record");
    const head = make("div", "record-head");
    const link = make("a", "mono", row.partition + ":" + row.offset);
    link.href = `${list.dataset.topic}/${row.partition}/${row.offset}${list.dataset.words}`;
    const time = make("time", "", new Date(row.timestamp).toLocaleString(undefined, {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
      second: "2-digit", timeZoneName: "short",
    }));
    head.append(link, " ", time, " ", make("span", "muted", size(row.size_bytes)));
    if (row.mark) head.append(" ", make("span", "badge warning", row.mark));
    made.append(head, part("key", row.key), part("value", row.value));
    if (row.headers.length) {
      const headers = make("dl", "record-headers");
      for (const each of row.headers) {
        const pair = make("div");
        pair.append(make("dt", "", each.name), make("dd", "", each.text));
        headers.append(pair);
      }
      made.append(headers);
    }
    return made;
  }

  function note(place, text) {
    place.append(make("p", "notice warning", text + "."));
    while (place.children.length > 20) place.firstChild.remove();
  }

  function runSearch() {
    const role = (name) => search.querySelector(`[data-role=${name}]`);
    const stop = role("stop");
    const goOn = role("go-on");
    const page = search.dataset.page;
    let standing = "";
    const source = new EventSource(`${search.dataset.stream}?${search.dataset.goOn}`);
    const end = (state, query) => {
      source.close();
      stop.hidden = true;
      role("state").textContent = state;
      goOn.hidden = !query;
      if (query) goOn.href = `${page}?${query}`;
    };
    const at = () => {
      const query = new URLSearchParams(search.dataset.goOn);
      if (standing) query.set("standing", standing);
      return query.toString();
    };
    goOn.hidden = true;
    stop.hidden = false;
    role("state").textContent = "Searching …";
    stop.addEventListener("click", () => end("Stopped.", at()));
    source.addEventListener("progress", (event) => {
      const news = JSON.parse(event.data);
      if (event.lastEventId) standing = event.lastEventId;
      role("bar").max = news.offsets_total || 1;
      role("bar").value = news.offsets_total ? news.offsets_done : 1;
      role("told").textContent = `Looked at ${count(news.offsets_done)} of ${count(news.offsets_total)}`
        + ` offsets (${count(news.records)} records, ${size(news.bytes_read)} read), found ${count(news.found)}.`;
      for (const row of news.rows) list.append(record(row));
      for (const each of news.notes) note(role("notes"), each);
    });
    source.addEventListener("end", (event) => {
      const news = JSON.parse(event.data);
      if (news.is_done) end("All was searched.", "");
      else end("Not finished: enough was found for now, or something could not be read.", news.go_on);
    });
    source.addEventListener("fault", (event) => end(JSON.parse(event.data).fault, at()));
    source.addEventListener("error", () => { if (source.readyState !== 1) end("The connection broke.", at()); });
  }

  function runTail() {
    const role = (name) => tail.querySelector(`[data-role=${name}]`);
    const stop = role("stop");
    let source = null;
    let seen = 0;
    let skipped = 0;
    const say = (text) => { role("state").textContent = text; };
    const close = (text) => {
      if (source) source.close();
      source = null;
      stop.textContent = "Go on";
      say(text);
    };
    const open = () => {
      source = new EventSource(tail.dataset.stream);
      stop.textContent = "Pause";
      say("Connecting …");
      source.addEventListener("records", (event) => {
        const news = JSON.parse(event.data);
        if (role("state").textContent !== "Live.") say("Live.");
        for (const row of news.rows) list.prepend(record(row));
        while (list.children.length > SHOWN_MAX) list.lastChild.remove();
        seen += news.rows.length;
        skipped += news.skipped;
        role("told").textContent = `${count(seen)} ${seen === 1 ? "record" : "records"} came`
          + (skipped ? `; ${count(skipped)} offsets were passed over, because more came than can be shown` : "") + ".";
      });
      source.addEventListener("fault", (event) => close(JSON.parse(event.data).fault));
      source.addEventListener("end", () => close("Ended after half an hour."));
      source.addEventListener("error", () => { if (source && source.readyState !== 1) close("The connection broke."); });
    };
    stop.hidden = false;
    stop.addEventListener("click", () => { if (source) close("Paused: what comes meanwhile is not shown."); else open(); });
    open();
  }

  if (search && search.dataset.goOn) runSearch();
  if (tail) runTail();
})();
