// The model that judges a plan, as codedag.plan has it: processing units and copy engines take turns, everything keeps its
// order and starts as early as it can. The page uses it to say what another choice would bring.

// What does not change with a choice: units, links, operations with their producers and an order that respects them.
function instanceOf(data) {
  const machine = data.machine || { pus: [], links: [] };
  const plan = data.plan, starts = new Map(plan.schedule.map(([op, start, end], listed) => [op, [start, end, listed]]));
  const pus = new Map(machine.pus.map((pu) => [pu.name, { launch: pu.launch_seconds, turn: pu.resource == null ? `pu ${pu.name}` : `resource ${pu.resource}` }]));
  for (const [, pu] of plan.placement) if (!pus.has(pu)) pus.set(pu, { launch: 0, turn: `pu ${pu}` });
  const links = new Map();
  for (const link of machine.links || []) links.set(`${link.src}>${link.dst}`, { src: link.src, dst: link.dst, latency: link.latency_seconds, rate: link.bytes_per_second,
    turn: link.shared == null ? `link ${link.src}>${link.dst}` : `shared ${link.shared}` });
  const ops = new Map();
  for (const [op, pu] of plan.placement) if (starts.has(op)) {
    const [start, end, listed] = starts.get(op);
    ops.set(op, { op, pu, start, end, listed, seconds: end - start, nbytes: data.nbytes.get(op) || 0, scratch: data.scratch.get(op) || 0, producers: [], before: [], readers: [], place: 0 });
  }
  for (const [src, dst, flow] of data.edges) if (ops.has(src) && ops.has(dst) && src !== dst) {
    (flow ? ops.get(dst).producers : ops.get(dst).before).push(src);
    ops.get(src).readers.push(dst);
  }
  orderPlaces(ops);
  return { pus, links, ops, transfers: plan.transfers };
}

// Numbers the operations in an order that respects the edges: by start and end, and as they are listed where these are
// the same, since what takes no time may come before or after.
function orderPlaces(ops) {
  const waiting = new Map(), ready = new Heap((a, b) => a.start - b.start || a.end - b.end || a.listed - b.listed);
  for (const one of ops.values()) {
    waiting.set(one.op, one.producers.length + one.before.length);
    if (!waiting.get(one.op)) ready.push(one);
  }
  for (let place = 0, one; (one = ready.pop()); place++) {
    one.place = place;
    for (const reader of one.readers) {
      waiting.set(reader, waiting.get(reader) - 1);
      if (!waiting.get(reader)) ready.push(ops.get(reader));
    }
  }
}

class Heap {
  constructor(compare) { this.items = []; this.compare = compare; }
  push(item) {
    const items = this.items;
    let at = items.length;
    items.push(item);
    while (at) {
      const up = (at - 1) >> 1;
      if (this.compare(items[up], items[at]) <= 0) break;
      [items[up], items[at]] = [items[at], items[up]];
      at = up;
    }
  }
  pop() {
    const items = this.items, first = items[0], last = items.pop();
    if (items.length) {
      items[0] = last;
      for (let at = 0; ;) {
        let least = at;
        for (const down of [2 * at + 1, 2 * at + 2]) if (down < items.length && this.compare(items[down], items[least]) < 0) least = down;
        if (least === at) break;
        [items[least], items[at]] = [items[at], items[least]];
        at = least;
      }
    }
    return first;
  }
}

// The copies that a placement needs. A value whose producer and readers are where the plan has them keeps its copies;
// any other is copied anew, the cheapest way, as soon as the plan has it. So everything that is needed comes before what
// needs it in the order of planned times, and no order can lock itself.
function copiesFor(instance, placed) {
  const found = [], planned = new Map();
  for (const one of instance.transfers) {
    if (!planned.has(one.op)) planned.set(one.op, []);
    planned.get(one.op).push(one);
  }
  for (const one of instance.ops.values()) {
    const home = placed.get(one.op).pu, readers = one.readers.filter((reader) => instance.ops.get(reader).producers.includes(one.op));
    const depth = new Map([[home, 0]]), add = (src, dst, time, until) => {
      depth.set(dst, depth.get(src) + 1);
      found.push({ op: one.op, src, dst, time, until, place: one.place, depth: depth.get(dst) });
    };
    if (home === one.pu && readers.every((reader) => placed.get(reader).pu === instance.ops.get(reader).pu)) {
      for (const copy of (planned.get(one.op) || []).slice().sort((a, b) => a.start - b.start || a.end - b.end)) {
        if (!depth.has(copy.src)) return { error: `the plan copies the result of op ${one.op} from ${copy.src}, where it is not` };
        add(copy.src, copy.dst, copy.start, copy.end);
      }
    }
    for (const pu of [...new Set(readers.map((reader) => placed.get(reader).pu))].sort()) if (!depth.has(pu)) {
      const way = cheapestWay(instance, depth, pu, one.nbytes);
      if (!way) return { error: `there is no link that brings the result of op ${one.op} from ${home} to ${pu}` };
      for (const [src, dst] of way) add(src, dst, one.end, one.end);
    }
  }
  return { copies: found };
}

function cheapestWay(instance, holds, target, nbytes) {
  const best = new Map([...holds.keys()].map((pu) => [pu, { seconds: 0, way: [] }])), left = new Set(best.keys());
  while (left.size) {
    const here = [...left].sort((a, b) => best.get(a).seconds - best.get(b).seconds || (a < b ? -1 : 1))[0];
    left.delete(here);
    if (here === target) return best.get(here).way;
    for (const link of instance.links.values()) if (link.src === here) {
      const seconds = best.get(here).seconds + link.latency + nbytes / link.rate;
      if (!best.has(link.dst) || seconds < best.get(link.dst).seconds) {
        best.set(link.dst, { seconds, way: [...best.get(here).way, [here, link.dst]] });
        left.add(link.dst);
      }
    }
  }
  return null;
}

// All operations and copies with their times under a choice (op -> {pu, seconds}); without changes it replays the plan.
function simulate(instance, choice) {
  const placed = new Map();
  for (const one of instance.ops.values()) {
    const other = choice && choice.get(one.op);
    placed.set(one.op, other ? { pu: other.pu, seconds: instance.pus.get(other.pu).launch + other.seconds } : { pu: one.pu, seconds: one.seconds });
  }
  const { copies, error } = copiesFor(instance, placed);
  if (error) return { error };
  const items = [], holder = new Map();
  for (const one of instance.ops.values()) {
    const item = { op: one.op, pu: placed.get(one.op).pu, seconds: placed.get(one.op).seconds, turn: instance.pus.get(placed.get(one.op).pu).turn,
      time: one.start, until: one.end, place: one.place, depth: 0, needs: [], then: [] };
    items.push(item);
    holder.set(`${one.op}@${item.pu}`, item);
  }
  for (const copy of copies) {
    const link = instance.links.get(`${copy.src}>${copy.dst}`);
    if (!link) return { error: `there is no link from ${copy.src} to ${copy.dst}` };
    const item = { ...copy, copy: true, seconds: link.latency + instance.ops.get(copy.op).nbytes / link.rate, turn: link.turn, needs: [], then: [] };
    items.push(item);
    holder.set(`${copy.op}@${copy.dst}`, item);
  }
  for (const item of items) {
    if (item.copy) item.needs.push(holder.get(`${item.op}@${item.src}`));
    else {
      for (const producer of instance.ops.get(item.op).producers) item.needs.push(holder.get(`${producer}@${item.pu}`));
      for (const before of instance.ops.get(item.op).before) item.needs.push(holder.get(`${before}@${placed.get(before).pu}`));
    }
    for (const need of item.needs) need.then.push(item);
  }
  return timed(items);
}

function timed(items) {
  const waiting = new Map(items.map((item) => [item, item.needs.length]));
  const ready = new Heap((a, b) => a.time - b.time || a.until - b.until || a.place - b.place || a.depth - b.depth || (a.dst < b.dst ? -1 : 1));
  const last = new Map(), done = [];
  for (const item of items) if (!item.needs.length) ready.push(item);
  for (let item; (item = ready.pop());) {
    item.start = 0;
    item.why = null;
    for (const need of [...item.needs, ...(last.has(item.turn) ? [last.get(item.turn)] : [])])
      if (need.end > item.start) { item.start = need.end; item.why = need; }
    item.end = item.start + item.seconds;
    last.set(item.turn, item);
    done.push(item);
    for (const next of item.then) {
      waiting.set(next, waiting.get(next) - 1);
      if (!waiting.get(next)) ready.push(next);
    }
  }
  let makespan = 0, latest = null;
  for (const item of done) if (item.end > makespan) { makespan = item.end; latest = item; }
  return { items: done, makespan, latest };
}

// What decided the end: from the last item back to the one that started at once.
function criticalPath(result) {
  const path = [];
  for (let item = result.latest; item; item = item.why) path.push(item);
  return path.reverse();
}

// The bytes that each unit holds over time, its peak, and whose values these are; `size` says how large a value is.
function liveBytes(instance, items, size) {
  const changes = new Map(), until = new Map();
  const at = (item) => `${item.op}@${item.copy ? item.dst : item.pu}`;
  for (const item of items) for (const need of item.needs) {
    const reads = item.copy || instance.ops.get(item.op).producers.includes(need.op);
    if (reads) until.set(at(need), Math.max(until.get(at(need)) || 0, item.end));
  }
  const add = (pu, time, sign, bytes, op) => { if (bytes) { if (!changes.has(pu)) changes.set(pu, []); changes.get(pu).push({ time, sign, bytes, op }); } };
  for (const item of items) {
    const pu = item.copy ? item.dst : item.pu, bytes = size(item.op), free = until.has(at(item)) ? until.get(at(item)) : item.end;
    add(pu, item.start, 1, bytes, item.op);
    add(pu, free, -1, bytes, item.op);
    if (!item.copy) { const extra = instance.ops.get(item.op).scratch; add(pu, item.start, 1, extra, item.op); add(pu, item.end, -1, extra, item.op); }
  }
  const found = new Map();
  for (const [pu, list] of changes) found.set(pu, levels(list));
  return found;
}

// What is freed at one time is freed before what is allocated then.
function levels(list) {
  list.sort((a, b) => a.time - b.time || a.sign - b.sign);
  const steps = [], held = new Map();
  let now = 0, peak = 0, peakTime = 0, owners = [];
  for (const one of list) {
    now += one.sign * one.bytes;
    held.set(one.op, (held.get(one.op) || 0) + one.sign * one.bytes);
    if (now > peak) { peak = now; peakTime = one.time; owners = null; }
    if (owners === null) owners = [...held].filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).slice(0, 8);
    if (steps.length && steps[steps.length - 1][0] === one.time) steps[steps.length - 1][1] = now;
    else steps.push([one.time, now]);
  }
  return { steps, peak, peakTime, owners };
}
