// Where the boxes of the graph go: layers from top to bottom, frames inside frames, and tall pictures in columns.
// The same steps as in codedag.view.layers, .layout and .svg; a test holds both to the same places.

const GAP_X = 22, GAP_Y = 46, LANE = 12, WIDEST_GAP = 66, SWEEPS = 12, PLACINGS = 48, STILL = 0.25;
const PAD = 14, HEADING = 26, LEAST_WIDEST = 1000, ENTRY = -1, EXIT = -2;
const most = (values, least) => values.reduce((a, b) => Math.max(a, b), least);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const pairs = (list) => list.slice(1).map((one, at) => [list[at], one]);

// ---- one frame: items in layers, lanes for wires that pass a layer

function arrange(items, wires, widest) {
  const levels = levelsOf(items, wires, widest), bottom = most(levels, 0) + 1;
  const layers = Array.from({ length: bottom + 1 }, () => []);
  const spots = items.map((item, at) => spot(item.width, item.height, at));
  spots.forEach((one, at) => layers[levels[at]].push(one));
  const chains = wires.map((wire) => chainOf(wire, spots, levels, bottom, layers));
  orderLayers(layers);
  placeLayers(layers);
  return arranged(layers, spots, chains, wires);
}

const spot = (width, height, item) => ({ width, height, item, x: 0, place: 0, level: 0, up: [], down: [] });

function levelsOf(items, wires, widest) {
  const before = items.map(() => []), levels = items.map(() => 0), used = new Map();
  for (const wire of wires) if (wire.source !== ENTRY && wire.target !== EXIT) before[wire.target].push(wire.source);
  items.forEach((item, at) => {
    let level = 1 + most(before[at].map((source) => levels[source]), 0);
    while (used.get(level) && used.get(level) + item.width > widest) level++;
    levels[at] = level;
    used.set(level, (used.get(level) || 0) + item.width + GAP_X);
  });
  pullDown(items, wires, levels, used, widest);
  return levels;
}

// What nothing feeds (constants, readers) stands just above its first user.
function pullDown(items, wires, levels, used, widest) {
  const fed = new Set(wires.map((wire) => wire.target)), after = items.map(() => []);
  for (const wire of wires) if (wire.source !== ENTRY && wire.target !== EXIT) after[wire.source].push(wire.target);
  for (let at = items.length - 1; at >= 0; at--) {
    if (fed.has(at) || !after[at].length) continue;
    const level = Math.min(...after[at].map((target) => levels[target])) - 1;
    if (level > levels[at] && (used.get(level) || 0) + items[at].width <= widest) {
      used.set(levels[at], used.get(levels[at]) - items[at].width - GAP_X);
      used.set(level, (used.get(level) || 0) + items[at].width + GAP_X);
      levels[at] = level;
    }
  }
}

function chainOf(wire, spots, levels, bottom, layers) {
  const first = wire.source === ENTRY ? 0 : levels[wire.source] + 1, last = wire.target === EXIT ? bottom : levels[wire.target] - 1, lanes = [];
  for (let level = first; level <= last; level++) { const lane = spot(LANE, 0, -1); lanes.push(lane); layers[level].push(lane); }
  const path = [...(wire.source === ENTRY ? [] : [spots[wire.source]]), ...lanes, ...(wire.target === EXIT ? [] : [spots[wire.target]])];
  for (const [upper, lower] of pairs(path)) {
    const atUpper = upper.item >= 0 ? wire.sourceX - upper.width / 2 : 0, atLower = lower.item >= 0 ? wire.targetX - lower.width / 2 : 0;
    upper.down.push([lower, atLower, atUpper, wire.weight]);
    lower.up.push([upper, atUpper, atLower, wire.weight]);
  }
  return lanes;
}

// The order within layers: barycentres, and the order with the fewest crossings is kept.
function orderLayers(layers) {
  const number = () => { for (const layer of layers) layer.forEach((one, at) => { one.place = at; }); };
  number();
  let best = crossings(layers), kept = layers.map((layer) => layer.slice());
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : layers.slice().reverse()) {
      for (const one of layer) one.key = barycentre(one, down ? one.up : one.down);
      layer.sort((a, b) => a.key - b.key);
      layer.forEach((one, at) => { one.place = at; });
    }
    const crossed = crossings(layers);
    if (crossed < best) { best = crossed; kept = layers.map((layer) => layer.slice()); }
    if (!best) break;
  }
  kept.forEach((layer, at) => { layers[at] = layer; });
  number();
}

const position = (one, offset) => one.place + 0.9 * offset / one.width;
const barycentre = (one, joints) => joints.length ? sum(joints.map(([other, at]) => position(other, at))) / joints.length : one.place;

function crossings(layers) {
  let total = 0;
  for (const layer of layers) {
    const ends = layer.flatMap((one) => one.down.map(([other, at, own]) => [position(one, own), position(other, at)])).sort((a, b) => a[0] - b[0] || a[1] - b[1]), seen = [];
    for (const [, target] of ends) {
      total += seen.length - firstAt(seen, (value) => value >= target + 1e-9);
      seen.splice(firstAt(seen, (value) => value > target), 0, target);
    }
  }
  return total;
}

function firstAt(sorted, is) {
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (is(sorted[middle])) high = middle; else low = middle + 1; }
  return low;
}

// Places: least squares under a fixed order, sweep after sweep until nothing moves.
function placeLayers(layers) {
  for (const layer of layers) settle(rowsOf(layer, () => []));
  const up = layers.map((layer) => rowsOf(layer, (one) => one.up)), down = layers.map((layer) => rowsOf(layer, (one) => one.down)).reverse();
  let before = null;
  for (let sweep = 0; sweep < PLACINGS; sweep++) {
    for (const rows of sweep % 2 === 0 ? up : down) settle(rows);
    if (sweep % 8 === 7) {
      const now = layers.flatMap((layer) => layer.map((one) => one.x));
      if (before && now.every((x, at) => Math.abs(x - before[at]) < STILL)) break;
      before = now;
    }
  }
  for (const layer of layers) settle(rowsOf(layer, (one) => [...one.up, ...one.down]));
  squeeze(layers);
}

function squeeze(layers) {
  const spots = layers.flat().sort((a, b) => (a.x - a.width / 2) - (b.x - b.width / 2));
  let right = Infinity, shift = 0;
  for (const one of spots) {
    const left = one.x - one.width / 2 - shift;
    if (left > right + WIDEST_GAP) shift += left - right - WIDEST_GAP;
    one.x -= shift;
    right = right === Infinity ? one.x + one.width / 2 : Math.max(right, one.x + one.width / 2);
  }
}

function rowsOf(layer, joints) {
  const rows = [];
  let shift = 0, before = 0;
  for (const one of layer) {
    shift += before ? before + one.width / 2 : 0;
    const wishes = joints(one).map(([other, at, own, weight]) => [other, at - own, weight * [1, 2, 8][(one.item < 0) + (other.item < 0)]]);
    rows.push([one, shift, wishes, sum(wishes.map((wish) => wish[2]))]);
    before = one.width / 2 + GAP_X * (one.item >= 0 ? 1 : 0.5);
  }
  return rows;
}

function settle(rows) {
  const blocks = [];
  rows.forEach(([one, shift, wishes, all], at) => {
    let weight = all, value, first = at;
    if (weight) { value = 0; for (const [other, offset, w] of wishes) value += w * (other.x + offset); value = value / weight - shift; }
    else { value = one.x - shift; weight = 0.1; }
    while (blocks.length && blocks[blocks.length - 1][0] >= value) {
      const [above, heavier, begun] = blocks.pop();
      value = (above * heavier + value * weight) / (heavier + weight);
      weight += heavier;
      first = begun;
    }
    blocks.push([value, weight, first]);
  });
  blocks.forEach(([value, , first], at) => {
    const end = at + 1 < blocks.length ? blocks[at + 1][2] : rows.length;
    for (let n = first; n < end; n++) rows[n][0].x = value + rows[n][1];
  });
}

function arranged(layers, spots, chains, wires) {
  const all = layers.flat(), left = all.length ? Math.min(...all.map((one) => one.x - one.width / 2)) : 0;
  const right = all.length ? Math.max(...all.map((one) => one.x + one.width / 2)) : 0;
  layers.forEach((layer, level) => { for (const one of layer) one.level = level; });
  const height = layers.map((layer) => most(layer.map((one) => one.height), 0)), tops = topsOf(layers, height);
  const lane = (one) => [one.x - left, tops[one.level], tops[one.level] + height[one.level]];
  return {
    corners: spots.map((one) => [one.x - one.width / 2 - left, tops[one.level]]),
    lanes: chains.map((chain, at) => {
      const found = chain.map(lane), wire = wires[at];
      if (wire.source === ENTRY) return found;
      const source = spots[wire.source], [centre, top, bottom] = lane(source);
      return [[centre - source.width / 2 + wire.sourceX, top + source.height, bottom], ...found];
    }),
    width: right - left, height: tops[tops.length - 1] + height[height.length - 1],
  };
}

function topsOf(layers, height) {
  const tops = [0];
  for (let level = 1; level < layers.length; level++) {
    const crowd = sum(layers[level].map((one) => one.up.length)), border = level === 1 || level === layers.length - 1;
    const bottom = tops[level - 1] + height[level - 1];
    tops.push(border && !crowd ? bottom + 8 : bottom + (border ? GAP_Y / 2 : GAP_Y) + Math.min(60, 1.6 * Math.max(0, crowd - 4)));
  }
  return tops;
}

// ---- frames inside frames: each is laid out by itself, then as one item of the frame around it

// A part is a box { number, width, height } or a frame { parts, heading }; links are [upper, lower, weight] by number of box.
function layOut(root, boxCount, links) {
  const block = layFrame(root, links.map((link, at) => at).filter((at) => links[at][0] !== links[at][1]), links, true);
  const boxes = Array.from({ length: boxCount }, (_, at) => block.boxes.get(at));
  return { boxes, frames: block.frames, routes: attached(boxes, links, block.routes), width: block.width, height: block.height };
}

const newBlock = (width, height) => ({ width, height, boxes: new Map(), frames: [], routes: new Map() });
const boxesOf = (part) => part.parts ? part.parts.flatMap(boxesOf) : [part.number];

function layFrame(frame, here, links, isRoot) {
  const owner = new Map(frame.parts.flatMap((part, at) => boxesOf(part).map((number) => [number, at])));
  const blocks = frame.parts.map((part, at) => {
    if (part.parts) return layFrame(part, here.filter((link) => owner.get(links[link][0]) === at || owner.get(links[link][1]) === at), links, false);
    const block = newBlock(part.width, part.height);
    block.boxes.set(part.number, { x: 0, y: 0, width: part.width, height: part.height });
    return block;
  });
  const wires = new Map();
  for (const link of here) {
    const upper = owner.get(links[link][0]), lower = owner.get(links[link][1]);
    if (upper === lower) continue;
    wires.set(link, { source: upper === undefined ? ENTRY : upper, target: lower === undefined ? EXIT : lower,
      sourceX: upper === undefined ? 0 : port(blocks[upper], link, true), targetX: lower === undefined ? 0 : port(blocks[lower], link, false), weight: links[link][2] });
  }
  const inside = joined(blocks, wires);
  if (isRoot) return inside;
  const width = Math.max(inside.width + 2 * PAD, frame.heading), whole = newBlock(width, inside.height + HEADING + PAD);
  whole.frames.push([frame, { x: 0, y: 0, width: whole.width, height: whole.height }]);
  put(whole, inside, (width - inside.width) / 2, HEADING);
  for (const [link, lanes] of whole.routes) {
    if (!owner.has(links[link][0])) lanes.unshift([lanes[0][0], 0, lanes[0][1]]);
    if (!owner.has(links[link][1])) lanes.push([lanes[lanes.length - 1][0], lanes[lanes.length - 1][2], whole.height]);
  }
  return whole;
}

function port(block, link, leaves) {
  const lanes = block.routes.get(link);
  return lanes && lanes.length ? lanes[leaves ? lanes.length - 1 : 0][0] : block.width / 2;
}

function joined(blocks, wires) {
  const area = sum(blocks.map((block) => (block.width + GAP_X) * (block.height + GAP_Y)));
  const widest = most(blocks.map((block) => block.width), Math.max(LEAST_WIDEST, 1.5 * Math.sqrt(area))), whole = newBlock(0, 0);
  for (const [block, x, y] of stacked(components(blocks.length, [...wires.values()]).map((group) => groupOf(blocks, wires, group, widest)))) {
    put(whole, block, x, y);
    whole.width = Math.max(whole.width, x + block.width);
    whole.height = Math.max(whole.height, y + block.height);
  }
  return whole;
}

function groupOf(blocks, wires, group, widest) {
  const place = new Map([...group.map((part, at) => [part, at]), [ENTRY, ENTRY], [EXIT, EXIT]]);
  const own = [...wires].filter(([, wire]) => place.has(wire.source) && place.has(wire.target) && (wire.source >= 0 || wire.target >= 0))
    .map(([link, wire]) => [link, { ...wire, source: place.get(wire.source), target: place.get(wire.target) }]);
  const found = arrange(group.map((part) => blocks[part]), own.map(([, wire]) => wire), widest), whole = newBlock(found.width, found.height);
  group.forEach((part, at) => put(whole, blocks[part], ...found.corners[at]));
  own.forEach(([link, wire], at) => {
    const before = wire.source === ENTRY ? [] : moved(blocks[group[wire.source]].routes.get(link) || [], ...found.corners[wire.source]);
    const after = wire.target === EXIT ? [] : moved(blocks[group[wire.target]].routes.get(link) || [], ...found.corners[wire.target]);
    whole.routes.set(link, [...before, ...found.lanes[at], ...after]);
  });
  return whole;
}

function put(whole, block, x, y) {
  for (const [at, box] of block.boxes) whole.boxes.set(at, { ...box, x: box.x + x, y: box.y + y });
  for (const [frame, rect] of block.frames) whole.frames.push([frame, { ...rect, x: rect.x + x, y: rect.y + y }]);
  for (const [link, lanes] of block.routes) whole.routes.set(link, moved(lanes, x, y));
}
const moved = (lanes, x, y) => lanes.map(([at, top, bottom]) => [at + x, top + y, bottom + y]);

function stacked(groups) {
  const [first, ...others] = groups, placed = [[first, 0, 0]];
  const tallest = most(others.map((block) => block.height), Math.max(first.height, 0.8 * Math.sqrt(sum(others.map((block) => (block.width + GAP_X) * (block.height + GAP_X))))));
  let x = first.width ? first.width + GAP_X : 0, y = 0, column = 0;
  for (const block of others) {
    if (y && y + block.height > tallest) { x += column + GAP_X; y = 0; column = 0; }
    placed.push([block, x, y]);
    y += block.height + GAP_X;
    column = Math.max(column, block.width);
  }
  return placed;
}

// The connected groups; all that is connected to the outside is the first, even if empty.
function components(length, wires) {
  const leader = Array.from({ length: length + 1 }, (_, at) => at);
  const find = (at) => { while (leader[at] !== at) { leader[at] = leader[leader[at]]; at = leader[at]; } return at; };
  for (const wire of wires) leader[find(wire.source < 0 ? length : wire.source)] = find(wire.target < 0 ? length : wire.target);
  const groups = new Map([[find(length), []]]);
  for (let at = 0; at < length; at++) { if (!groups.has(find(at))) groups.set(find(at), []); groups.get(find(at)).push(at); }
  return [...groups.values()];
}

// The routes with their ends spread over the sides of the boxes, in an order without crossings.
function attached(boxes, links, routes) {
  const leaving = new Map(), arriving = new Map(), centre = (rect) => rect.x + rect.width / 2, whole = new Map();
  const add = (map, box, one) => { if (!map.has(box)) map.set(box, []); map.get(box).push(one); };
  links.forEach(([upper, lower], link) => {
    if (upper === lower) return;
    const lanes = routes.get(link);
    add(leaving, upper, [lanes.length > 1 ? lanes[1][0] : centre(boxes[lower]), link]);
    add(arriving, lower, [lanes.length > 1 ? lanes[lanes.length - 1][0] : centre(boxes[upper]), link]);
  });
  const starts = spread(boxes, leaving), stops = spread(boxes, arriving);
  links.forEach(([upper, lower], link) => {
    if (upper === lower) return;
    const lanes = routes.get(link), y = boxes[lower].y;
    whole.set(link, tidy([[starts.get(link), lanes[0][1], lanes[0][2]], ...lanes.slice(1), [stops.get(link), y, y]]));
  });
  return whole;
}

function spread(boxes, found) {
  const places = new Map();
  for (const [box, ends] of found) {
    const rect = boxes[box], step = rect.width / (ends.length + 1);
    ends.sort((a, b) => a[0] - b[0] || a[1] - b[1]).forEach(([, link], at) => places.set(link, rect.x + step * (at + 1)));
  }
  return places;
}

function tidy(lanes) {
  const found = [lanes[0].slice()];
  for (const [[x, , bottom], [nextX, top, end]] of pairs(lanes)) {
    const last = found[found.length - 1];
    if (Math.abs(x - nextX) < 0.5) last[2] = Math.max(end, bottom); else found.push([nextX, top, end]);
  }
  return found;
}
