// A tall picture as columns side by side, as a newspaper sets a long text: what is cut goes on at the top of the next.

const ASPECT = 1.45; // width over height of the place for the picture on a screen of 1500 x 1000
const GUTTER = 34, STEP = 7, MARGIN = 26, MOST_COLUMNS = 6;
const MOST_CUT = 14; // arrows that one cut may go through; more are no longer told apart

// Frames become [frame, place, whether it is its first part], routes lists of stretches, and ways lead between these.
function columns(layout) {
  const cuts = cutsOf(layout);
  if (cuts.length) return new Columns(layout, cuts).made();
  return { ...layout, frames: layout.frames.map(([frame, rect]) => [frame, rect, true]), routes: new Map([...layout.routes].map(([link, lanes]) => [link, [lanes]])), ways: new Map() };
}

function cutsOf(layout) {
  const wanted = Math.round(Math.sqrt(layout.height * ASPECT / Math.max(layout.width, 1)));
  if (wanted < 2) return [];
  const places = cutPlaces(layout);
  for (let count = Math.min(wanted, MOST_COLUMNS); count > 1; count--) {
    const part = layout.height / count, cuts = [];
    for (let at = 1; at < count; at++) {
      const near = places.filter(([y]) => Math.abs(y - part * at) < part * 0.4).map(([y, price]) => [Math.abs(y - part * at) / part + price, y]);
      if (near.length) cuts.push(near.reduce((a, b) => b[0] < a[0] || (b[0] === a[0] && b[1] < a[1]) ? b : a)[1]);
    }
    if (cuts.length === count - 1 && pairs([0, ...cuts, layout.height]).every(([a, b]) => b - a > 60)) return cuts;
  }
  return [];
}

// Heights between boxes, and what a cut there costs: arrows and frames that it goes through.
function cutPlaces(layout) {
  const spans = [...layout.routes.values()].map((lanes) => [lanes[0][1], lanes[lanes.length - 1][2]]);
  return gapsOf(layout).map(([top, bottom]) => {
    const y = (top + bottom) / 2, arrows = spans.filter(([a, b]) => a < y && y < b).length;
    return [y, 0.06 * arrows + 0.12 * layout.frames.filter(([, rect]) => rect.y < y && y < rect.y + rect.height).length, arrows];
  }).filter(([, , arrows]) => arrows <= MOST_CUT);
}

function gapsOf(layout) {
  const taken = layout.boxes.map((box) => [box.y - 4, box.y + box.height + 4]);
  for (const [, rect] of layout.frames) taken.push([rect.y - 2, rect.y + 26], [rect.y + rect.height - 8, rect.y + rect.height + 2]);
  const found = [];
  let bottom = 0;
  for (const [top, end] of taken.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    if (top - bottom > 6) found.push([bottom, top]);
    bottom = Math.max(bottom, end);
  }
  return found;
}

// Where a route crosses a height: in a lane it is straight, between two it bends.
function crossingOf(lanes, y) {
  for (const [[x, , bottom], [nextX, top]] of pairs(lanes)) {
    if (y <= bottom) return x;
    if (y < top) return x + (nextX - x) * bend((y - bottom) / (top - bottom));
  }
  return lanes[lanes.length - 1][0];
}
const bend = (part) => part * part * (3 - 2 * part);

class Columns {
  constructor(layout, cuts) {
    this.layout = layout;
    this.cuts = cuts;
    this.edges = [0, ...cuts, layout.height];
    this.crossed = cuts.map((y) => [...layout.routes].filter(([, lanes]) => lanes[0][1] < y && y < lanes[lanes.length - 1][2]).map(([link]) => link));
    this.parts = pairs(this.edges).map(([top, bottom]) => this.partsOf(top, bottom));
    this.shift = [];
    this.right = [];
    let right = 0;
    pairs(this.edges).forEach(([top, bottom], at) => {
      const [low, high] = this.extent(top, bottom, this.parts[at]), gutter = at ? GUTTER + STEP * this.crossed[at - 1].length : 0;
      this.shift.push([right + gutter - low, MARGIN - top]);
      right += gutter + high - low;
      this.right.push(right);
    });
  }

  // What each frame holds between two heights, from left to right: a wide function may go on as a single chain.
  partsOf(top, bottom) {
    const parts = new Map(), boxes = this.layout.boxes.filter((box) => top <= box.y && box.y < bottom);
    for (const [frame, rect] of [...this.layout.frames].reverse()) { // the inner ones first
      if (rect.y >= bottom || rect.y + rect.height <= top) continue;
      const end = rect.x + rect.width, from = Math.max(top, rect.y), to = Math.min(bottom, rect.y + rect.height);
      const holds = (x, right, y) => rect.x <= x && right <= end && from <= y && y < to;
      const spans = boxes.filter((box) => holds(box.x, box.x + box.width, box.y)).map((box) => [box.x - PAD, box.x + box.width + PAD]);
      for (const [x, right, y] of parts.values()) if (holds(x, right, y)) spans.push([x - PAD, right + PAD]);
      for (const lanes of this.layout.routes.values()) for (const [x, a, b] of lanes) if (a < to && b > from && rect.x <= x && x <= end) spans.push([x - PAD, x + PAD]);
      const heading = Math.min(rect.width, rect.y >= top ? frame.heading : 6.8 * (frame.path.join(" / ").length + 10) + 26);
      const low = Math.max(rect.x, Math.min(...spans.map((one) => one[0]), end - heading)), high = Math.min(end, Math.max(...spans.map((one) => one[1]), low + heading));
      parts.set(frame, [low, high, from]);
    }
    return parts;
  }

  extent(top, bottom, parts) {
    const spans = this.layout.boxes.filter((box) => top <= box.y && box.y < bottom).map((box) => [box.x, box.x + box.width]);
    for (const [low, high] of parts.values()) spans.push([low, high]);
    for (const lanes of this.layout.routes.values()) for (const [x, from, to] of lanes) if (from < bottom && to > top) spans.push([x - 6, x + 6]);
    return spans.length ? [Math.min(...spans.map((one) => one[0])), Math.max(...spans.map((one) => one[1]))] : [0, 0];
  }

  columnOf(y) { return firstAt(this.cuts, (cut) => cut > y); }
  moved(rect, column) { return { ...rect, x: rect.x + this.shift[column][0], y: rect.y + this.shift[column][1] }; }

  made() {
    const routes = new Map(), ways = new Map();
    for (const [link, lanes] of this.layout.routes) {
      const first = this.columnOf(lanes[0][1]), last = this.columnOf(lanes[lanes.length - 1][2] - 1e-6), stretches = [];
      for (let column = first; column <= last; column++) stretches.push(this.stretch(lanes, column, first, last));
      routes.set(link, stretches);
      ways.set(link, pairs(stretches).map(([above, below], at) => this.way(link, first + at, above, below)));
    }
    return { boxes: this.layout.boxes.map((box) => this.moved(box, this.columnOf(box.y))), frames: this.frames(), routes, ways,
      width: this.right[this.right.length - 1], height: most(pairs(this.edges).map(([a, b]) => b - a), 0) + 2 * MARGIN };
  }

  frames() {
    return this.layout.frames.flatMap(([frame, rect]) => {
      const parts = [];
      pairs(this.edges).forEach(([top, bottom], column) => {
        const low = Math.max(rect.y, top), high = Math.min(rect.y + rect.height, bottom);
        if (!(high > low)) return;
        const [x, right] = this.parts[column].get(frame);
        parts.push([frame, this.moved({ x, width: right - x, y: low, height: high - low }, column), !parts.length]);
      });
      return parts;
    });
  }

  stretch(lanes, column, first, last) {
    const top = this.edges[column], bottom = this.edges[column + 1], [x, y] = this.shift[column];
    const inside = lanes.filter(([, a, b]) => b >= top && a <= bottom).map(([at, a, b]) => [at, Math.max(a, top), Math.min(b, bottom)]);
    if (column > first) inside.unshift([crossingOf(lanes, top), top, top]);
    if (column < last) inside.push([crossingOf(lanes, bottom), bottom, bottom]);
    return moved(inside, x, y);
  }

  // How a cut arrow gets from one column to the next: down, through the gutter, up and down again.
  way(link, column, above, below) {
    const crossed = this.crossed[column], place = crossed.indexOf(link), [startX, , startY] = above[above.length - 1], [endX, endY] = below[0];
    const x = this.right[column] + GUTTER / 2 + STEP * place, part = MARGIN / (crossed.length + 1) * (place + 1);
    const low = startY + part, high = MARGIN - part;
    return [[startX, startY], [startX, low], [x, low], [x, high], [endX, high], [endX, endY]];
  }
}

// ---- arrows

const thickness = (link) => link.kind === "flow" ? Math.min(1 + 0.9 * Math.max(0, Math.log10(link.nbytes + 1) - 3), 7.5) : 1.5;
const short = (value) => String(Math.round(value * 10) / 10);

// The path along the lanes and the head of the arrow; between lanes it bends, in a lane it is straight.
function routePath(lanes, upwards, wide) {
  const size = 4.5 + wide, end = lanes[lanes.length - 1];
  let [x, top, y] = lanes[0], path = `M${short(x)} ${short(top + (upwards ? size : 0))}V${short(y)}`;
  lanes.slice(1).forEach(([nextX, nextTop, nextBottom], at) => {
    const isLast = at + 2 === lanes.length, stop = nextTop - (upwards || !isLast ? 0 : size), middle = (y + stop) / 2;
    path += `C${[x, middle].map(short).join(" ")} ${[nextX, middle].map(short).join(" ")} ${[nextX, stop].map(short).join(" ")}`;
    if (nextBottom > nextTop) path += `V${short(nextBottom - (isLast && !upwards ? size : 0))}`;
    x = nextX;
    y = nextBottom;
  });
  if (lanes.length === 1 && !upwards) path = `M${short(x)} ${short(top)}V${short(y - size)}`;
  return [path, upwards ? arrowHead(lanes[0][0], lanes[0][1], size, 1) : arrowHead(end[0], end[2], size, -1)];
}

function arrowHead(x, y, size, way) {
  const half = size * 0.55;
  return `M${short(x)} ${short(y)}L${short(x - half)} ${short(y + way * size)}H${short(x + half)}Z`;
}

// A way with right angles, whose corners are round.
function bentPath(points, radius = 6) {
  const towards = (here, there) => {
    const length = Math.abs(there[0] - here[0]) + Math.abs(there[1] - here[1]), part = length ? Math.min(radius, length / 2) / length : 0;
    return [here[0] + (there[0] - here[0]) * part, here[1] + (there[1] - here[1]) * part].map(short).join(" ");
  };
  let path = `M${points[0].map(short).join(" ")}`;
  for (let at = 1; at + 1 < points.length; at++) path += `L${towards(points[at], points[at - 1])}Q${points[at].map(short).join(" ")} ${towards(points[at], points[at + 1])}`;
  return `${path}L${points[points.length - 1].map(short).join(" ")}`;
}

// An arrow from the right side of a box back to it.
function loopPath(rect) {
  const x = rect.x + rect.width, y = rect.y + rect.height / 2;
  return [`M${short(x)} ${short(y + 12)}C${short(x + 20)} ${short(y + 16)} ${short(x + 20)} ${short(y - 16)} ${short(x + 6)} ${short(y - 10)}`, `M${short(x)} ${short(y - 10)}l7 -4v8Z`];
}

// The path of a link through all columns; a stretch that is cut has no head there, and reaches the cut.
function linkPath(layout, at, link) {
  if (link.source === link.target) return loopPath(layout.boxes[link.source]);
  const stretches = layout.routes.get(at), upwards = link.source > link.target, ends = upwards ? 0 : stretches.length - 1;
  const pieces = stretches.map((lanes, n) => routePath(lanes, upwards, n === ends ? thickness(link) : -4.5));
  return [pieces.map(([path]) => path).join("") + (layout.ways.get(at) || []).map((way) => bentPath(way)).join(""), pieces[ends][1]];
}

// The bytes at the arrows, the largest first, each where it hides nothing.
function sizeLabels(layout, links) {
  const taken = [...layout.boxes, ...layout.frames.map(([, rect]) => ({ ...rect, width: Math.min(rect.width, 200), height: 24 }))], found = [];
  const overlap = (a, b) => a.x + a.width > b.x && b.x + b.width > a.x && a.y + a.height > b.y && b.y + b.height > a.y;
  links.map((link, at) => [link, at]).filter(([link, at]) => link.kind === "flow" && link.nbytes && layout.routes.has(at)).sort((a, b) => b[0].nbytes - a[0].nbytes || a[1] - b[1]).forEach(([link, at]) => {
    const words = sizeText(link.nbytes), width = 5.6 * words.length + 2;
    const longest = layout.routes.get(at).reduce((a, b) => b[b.length - 1][2] - b[0][1] > a[a.length - 1][2] - a[0][1] ? b : a);
    const rooms = labelPlaces(longest).flatMap(([x, y]) => [x + 7, x - width - 7].map((left) => ({ x: left, y: y - 5, width, height: 11 })));
    const room = rooms.find((one) => !taken.some((other) => overlap(one, other)));
    if (room) { taken.push(room); found.push([room.x + 1, room.y + 9, words]); }
  });
  return found;
}

function labelPlaces(lanes) {
  const found = pairs(lanes).flatMap(([[x, , bottom], [nextX, top]]) => [0.5, 0.7, 0.3].map((part) => [x + (nextX - x) * bend(part), bottom + (top - bottom) * part]));
  return [...found, ...lanes.filter(([, top, bottom]) => bottom - top > 14).map(([x, top, bottom]) => [x, (top + bottom) / 2])];
}
