// Plays the recorded trace: workers as lanes that move to the left, fibers as rows below them.
"use strict";
(() => {
  const figure = document.querySelector("#trace");
  const recording = JSON.parse(document.querySelector("#recording").textContent);
  const { length, workers, fibers, states, instants } = recording;
  const canvas = figure.querySelector("canvas");
  const brush = canvas.getContext("2d");
  const button = (name) => figure.querySelector(`[data-do=${name}]`);
  const slider = figure.querySelector("input");
  const text = figure.querySelector(".now");
  const slow = Number(figure.dataset.slow);
  const AGENT = -1;
  const SLEEP = -2;

  // All moments at which something changes, for the steps.
  const moments = [...new Set([
    ...workers.flat().flatMap(([begin, end]) => [begin, end]),
    ...instants.map(([at]) => at),
  ])].filter((at) => at > 0 && at < length).sort((a, b) => a - b);

  let now = 0;
  let isPlaying = false;
  let last = null;
  let isVisible = true;
  let colours = {};

  const readColours = () => {
    const style = getComputedStyle(figure);
    const of = (name) => style.getPropertyValue(name).trim();
    colours = {
      paper: of("--paper"), ink: of("--ink"), soft: of("--soft"), rule: of("--rule"),
      panel: of("--panel"), accent: of("--accent"), steal: of("--steal"),
      fibers: fibers.map((_, index) => of(`--fiber-${index % 5}`)),
    };
  };

  const at = (spans, time) => spans.find(([begin, end]) => begin <= time && time < end);
  const doing = (what) => (what === AGENT ? "its agent polls" : what === SLEEP ? "sleeps" : `runs ${fibers[what] ?? "another fiber"}`);
  const microseconds = (ns) => `${(ns / 1000).toFixed(2)} µs`;

  // The same as the picture, in words.
  const describe = () => {
    const parts = workers.map((spans, index) => {
      const span = at(spans, now);
      return `worker ${index}: ${span ? doing(span[2]) : "switches"}`;
    });
    const events = instants.filter(([time]) => time === Math.round(now)).map(([, worker, name, detail]) => {
      if (name === "wake") return `worker ${worker} wakes ${fibers[detail] ?? "a fiber"}`;
      if (name === "steal") return `worker ${worker} steals from ${detail}`;
      return `the agent of worker ${worker} finds work`;
    });
    return `${microseconds(now)}: ${[...parts, ...events].join("; ")}.`;
  };

  const draw = () => {
    const width = canvas.clientWidth;
    const scale = window.devicePixelRatio || 1;
    const isNarrow = width < 560;
    const lane = 34, title = 22, gap = 26, row = 18;
    const rowsTop = workers.length * (title + lane + gap) + 10;
    const height = rowsTop + fibers.length * row + 26;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
    }
    brush.setTransform(scale, 0, 0, scale, 0, 0);
    brush.clearRect(0, 0, width, height);
    const left = isNarrow ? 58 : 76;
    const head = Math.round(width - (isNarrow ? 92 : 190));
    const window_ = isNarrow ? 7000 : 20000;
    const x = (time) => head - ((now - time) / window_) * (head - left);
    const laneTop = (worker) => worker * (title + lane + gap) + title;
    const font = (size, weight = "") => { brush.font = `${weight} ${size}px ${getComputedStyle(figure).fontFamily}`; };
    const write = (words, px, py, colour, align = "left") => {
      brush.fillStyle = colour;
      brush.textAlign = align;
      brush.fillText(words, px, py);
    };
    brush.textBaseline = "middle";
    const bottom = rowsTop + fibers.length * row;

    // The scale: a line for each microsecond.
    font(11);
    const first = Math.max(0, Math.ceil((now - window_) / 1000));
    for (let us = first; us * 1000 <= now; us++) {
      brush.fillStyle = colours.rule;
      brush.fillRect(Math.round(x(us * 1000)), title, 1, bottom - title);
      if (x(us * 1000) > left + 12) write(us % 2 ? "" : `${us} µs`, x(us * 1000), bottom + 13, colours.soft, "center");
    }

    const clip = (inside) => {
      brush.save();
      brush.beginPath();
      brush.rect(left, 0, head - left, height);
      brush.clip();
      inside();
      brush.restore();
    };
    const seen = (spans) => spans.filter(([begin, end]) => begin < now && end > now - window_);

    workers.forEach((spans, worker) => {
      const top = laneTop(worker);
      font(12, "600");
      write(isNarrow ? `w ${worker}` : `worker ${worker}`, 0, top + lane / 2, colours.ink);
      clip(() => {
        for (const [begin, end, what] of seen(spans)) {
          const from = x(begin), to = x(Math.min(end, now));
          if (what === SLEEP) {
            brush.fillStyle = colours.soft;
            brush.fillRect(from, top + lane / 2, to - from, 1);
          } else if (what === AGENT) {
            // Polling: a light band with a line for each part of it, as rounds have no events.
            brush.fillStyle = colours.panel;
            brush.fillRect(from, top + 9, to - from, lane - 18);
            brush.strokeStyle = colours.soft;
            brush.setLineDash([2, 3]);
            brush.strokeRect(from + 0.5, top + 9.5, Math.max(0, to - from - 1), lane - 19);
            brush.setLineDash([]);
            font(11);
            if (to - from > 44) write("agent", Math.max(from, left) + 7, top + lane / 2, colours.soft);
          } else {
            brush.fillStyle = colours.fibers[what] ?? colours.soft;
            brush.fillRect(from, top, Math.max(1, to - from - 1), lane);
            font(12);
            const label = fibers[what] ?? "";
            const begins = Math.max(from, left) + 7;
            if (x(end) - begins > brush.measureText(label).width + 4 && to > begins) {
              brush.save();
              brush.beginPath();
              brush.rect(from, top, to - from, lane);
              brush.clip();
              write(label, begins, top + lane / 2, colours.paper);
              brush.restore();
            }
          }
        }
      });
      const span = at(spans, now);
      font(isNarrow ? 11 : 13);
      if (span) write(doing(span[2]), head + 10, top + lane / 2, span[2] >= 0 ? colours.ink : colours.soft);
    });

    // Wakes lead from the waker to the place where the woken fiber begins to run; thefts are marks.
    clip(() => {
      for (const [time, worker, name, detail, target] of instants) {
        if (time > now || time < now - 2 * window_) continue;
        const px = x(time);
        if (name === "wake") {
          const lower = laneTop(worker) + lane;
          brush.strokeStyle = colours.accent;
          brush.fillStyle = colours.accent;
          brush.lineWidth = 1.5;
          const ends = target && target[0] <= now;
          const tx = ends ? x(target[0]) : head;
          const isOther = target && target[1] !== worker;
          const ty = isOther ? laneTop(target[1]) + (target[1] > worker ? 0 : lane) : lower;
          const sy = isOther && target[1] < worker ? laneTop(worker) : lower;
          brush.beginPath();
          brush.moveTo(px, sy);
          if (!isOther) brush.bezierCurveTo(px, sy + 18, tx, ty + 18, tx, ty);
          else brush.lineTo(tx, ends ? ty : sy + (ty - sy) * Math.min(1, (now - time) / (target[0] - time)));
          if (target) brush.stroke();
          if (ends) {
            brush.beginPath();
            brush.arc(tx, ty, 2.5, 0, 7);
            brush.fill();
          }
          brush.lineWidth = 1;
        } else if (name === "steal") {
          const top = laneTop(worker);
          brush.fillStyle = colours.steal;
          brush.beginPath();
          brush.moveTo(px - 5, top - 9);
          brush.lineTo(px + 5, top - 9);
          brush.lineTo(px, top - 1);
          brush.fill();
          font(11);
          write(`steals from ${detail}`, px + 9, top - 8, colours.steal);
        }
      }
    });

    fibers.forEach((name, fiber) => {
      const middle = rowsTop + fiber * row + row / 2;
      font(11);
      write(name, 0, middle, colours.ink);
      clip(() => {
        for (const [begin, end, state] of seen(states[fiber])) {
          const from = x(begin), to = x(Math.min(end, now));
          const isRunning = state.startsWith("runs");
          const half = isRunning ? 5 : state === "runnable" ? 2 : 0.5;
          brush.fillStyle = isRunning || state === "runnable" ? colours.fibers[fiber] : colours.soft;
          brush.fillRect(from, middle - half, Math.max(1, to - from), 2 * half);
        }
      });
      const state = at(states[fiber], now);
      const words = !state ? "" : state[2].startsWith("runs") || state[2] === "runnable" ? state[2] : `waits: ${state[2]}`;
      write(isNarrow ? words.replace("on worker", "on w") : words, head + 10, middle, colours.soft);
    });

    brush.fillStyle = colours.ink;
    brush.fillRect(head, title - 8, 1.5, bottom - title + 8);
    figure.dataset.now = now;
    slider.value = Math.round(now);
    slider.setAttribute("aria-valuetext", microseconds(now));
    if (!isPlaying) text.textContent = describe();
  };

  const go = (time) => {
    now = Math.min(length - 1, Math.max(0, time));
    draw();
  };

  const tick = (time) => {
    if (!isPlaying) return;
    if (last !== null && isVisible) {
      const next = now + ((time - last) * 1e6) / slow;
      go(next >= length - 1 ? 0 : next);
    }
    last = time;
    requestAnimationFrame(tick);
  };

  const play = (goesOn) => {
    isPlaying = goesOn;
    last = null;
    button("play").textContent = goesOn ? "Pause" : "Play";
    text.textContent = goesOn ? "Pause it to read each event in words." : describe();
    text.setAttribute("aria-live", goesOn ? "off" : "polite");
    if (goesOn) requestAnimationFrame(tick);
  };

  const step = (direction) => {
    if (isPlaying) play(false);
    const next = direction > 0
      ? moments.find((moment) => moment > now + 0.5)
      : moments.findLast((moment) => moment < now - 0.5);
    go(next ?? (direction > 0 ? 0 : moments.at(-1)));
  };

  button("play").addEventListener("click", () => play(!isPlaying));
  button("back").addEventListener("click", () => step(-1));
  button("next").addEventListener("click", () => step(1));
  slider.max = length - 1;
  slider.addEventListener("input", () => {
    if (isPlaying) play(false);
    go(Number(slider.value));
  });
  canvas.addEventListener("keydown", (event) => {
    const action = { " ": () => play(!isPlaying), ArrowRight: () => step(1), ArrowLeft: () => step(-1) }[event.key];
    if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    action();
  });

  for (const part of figure.querySelectorAll(".controls, .now")) part.hidden = false;
  figure.querySelector(".slow").textContent =
    `Slowed down ${slow.toLocaleString("en")} times: a second here was ${microseconds(1e9 / slow)} there.`;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  calm.addEventListener("change", () => play(!calm.matches));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  new ResizeObserver(draw).observe(canvas);
  new IntersectionObserver(([entry]) => {
    isVisible = entry.isIntersecting;
    last = null;
  }).observe(canvas);

  readColours();
  // The first picture has a theft, if there is one.
  const theft = instants.find(([, , name]) => name === "steal");
  go(theft ? theft[0] + 4000 : length / 2);
  play(!calm.matches);
})();
