// What the archive has, asked for again while somebody looks at it.

import { asProblem, get, type Lineage, type Problem, type Timeline } from './api';
import { live } from './live.svelte';

const AGAIN = 10_000;
/** An archive that has nothing yet is about to. */
const SOON = 1000;

class Archive {
  timeline = $state<Timeline | null>(null);
  problem = $state<Problem | null>(null);
  private lookers = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Asks now and from then on, until what comes back is called. */
  look(): () => void {
    this.lookers += 1;
    if (this.lookers === 1) void this.ask();
    return () => {
      this.lookers -= 1;
      if (this.lookers === 0) clearTimeout(this.timer);
    };
  }

  private async ask(): Promise<void> {
    try {
      this.timeline = await get<Timeline>('points');
      this.problem = null;
    } catch (error) {
      this.problem = asProblem(error);
    }
    clearTimeout(this.timer);
    const again = this.timeline?.lineages.length === 0 ? SOON : AGAIN;
    if (this.lookers > 0) this.timer = setTimeout(() => void this.ask(), live.connected ? again : 3000);
  }
}

export const archive = new Archive();

/** When a revision of a lineage was there, as far as its points tell. */
export function timeOf(lineage: Lineage, revision: number): number | null {
  const known: [number, number][] = [];
  for (const point of lineage.points) if (point.revision !== null) known.push([point.revision, Date.parse(point.time)]);
  for (const range of lineage.ranges) {
    if (range.from_time) known.push([range.from, Date.parse(range.from_time)]);
    if (range.to_time) known.push([range.to, Date.parse(range.to_time)]);
  }
  known.sort((one, other) => one[0] - other[0]);
  const after = known.find(([at]) => at >= revision);
  const before = known.findLast(([at]) => at <= revision);
  if (!after || !before) return (after ?? before)?.[1] ?? null;
  if (after[0] === before[0]) return before[1];
  return before[1] + ((revision - before[0]) / (after[0] - before[0])) * (after[1] - before[1]);
}

/** The revision of a lineage at a time, as far as its points tell. */
export function revisionAt(lineage: Lineage, time: number): number | null {
  const first = lineage.ranges[0];
  const last = lineage.ranges.at(-1);
  if (!first || !last) return null;
  let [low, high] = [first.from, last.to];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((timeOf(lineage, middle) ?? Infinity) <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Whether a revision of a lineage can be restored, as far as names tell. */
export function has(lineage: Lineage, revision: number): boolean {
  return lineage.ranges.some((range) => range.from <= revision && revision <= range.to);
}
