// Returns the faults of the page as an array of texts.
(() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.querySelectorAll("body *")].find(
      (part) => part.getBoundingClientRect().right > root.clientWidth + 1 && !part.closest(".wide, pre, nav"));
    faults.push(`scrolls sideways, by ${wide ? wide.outerHTML.slice(0, 120) : "a part"}`);
  }
  const only = (selector, count) => {
    const found = document.querySelectorAll(selector).length;
    if (found !== count) faults.push(`${found} of ${selector} in place of ${count}`);
  };
  for (const selector of ["h1", "main", "header", "footer", "html[lang]", "title"]) only(selector, 1);
  only("nav:not([aria-label])", 0);
  only("img:not([alt])", 0);
  for (const control of document.querySelectorAll("button, a[href], input")) {
    const label = control.labels?.[0]?.textContent ?? "";
    const name = control.textContent + (control.ariaLabel ?? "") + label + (control.querySelector("img")?.alt ?? "");
    if (!name.trim()) faults.push(`no name: ${control.outerHTML.slice(0, 120)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((part) => part.id);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice) faults.push(`two elements have the id ${twice}`);
  let level = 0;
  for (const heading of document.querySelectorAll("main :is(h1, h2, h3, h4, h5, h6)")) {
    const next = Number(heading.localName[1]);
    if (next > level + 1) faults.push(`the heading "${heading.textContent}" leaves a level out`);
    level = next;
  }

  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = numbers(colour).map((part) => {
      const s = part / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (part) => {
    for (; part; part = part.parentElement) {
      const colour = getComputedStyle(part).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const seen = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const part = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !part.checkVisibility() || part.closest("script, style")) continue;
    const pair = [getComputedStyle(part).color, behind(part)];
    if (seen.has(pair.join())) continue;
    seen.add(pair.join());
    const [light, dark] = pair.map(luminance).sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(1)} of "${texts.currentNode.data.trim().slice(0, 40)}"`);
  }
  return faults;
})()
