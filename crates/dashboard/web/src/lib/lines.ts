// What differs between two texts, line by line.

export interface Line { kind: 'same' | 'gone' | 'new'; text: string }

/** More lines than this are not compared: the table below has their square. */
const MOST = 1200;

/** The lines of both, in order. Nothing if they are too many to compare. */
export function differing(before: string, after: string): Line[] | null {
  const a = before.split('\n');
  const b = after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const left = a.slice(head, a.length - tail);
  const right = b.slice(head, b.length - tail);
  if (left.length > MOST || right.length > MOST) return null;

  // The length of the longest common run of lines of what begins at each pair.
  const wide = right.length + 1;
  const common = new Uint16Array((left.length + 1) * wide);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      const longest = left[i] === right[j] ? (common[(i + 1) * wide + j + 1] ?? 0) + 1
        : Math.max(common[(i + 1) * wide + j] ?? 0, common[i * wide + j + 1] ?? 0);
      common[i * wide + j] = longest;
    }
  }
  const lines: Line[] = a.slice(0, head).map((text) => ({ kind: 'same', text }));
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    const [one, other] = [left[i], right[j]];
    if (one !== undefined && one === other) {
      lines.push({ kind: 'same', text: one });
      [i, j] = [i + 1, j + 1];
    } else if (other === undefined || (one !== undefined && (common[(i + 1) * wide + j] ?? 0) >= (common[i * wide + j + 1] ?? 0))) {
      lines.push({ kind: 'gone', text: one ?? '' });
      i += 1;
    } else {
      lines.push({ kind: 'new', text: other });
      j += 1;
    }
  }
  return lines.concat(a.slice(a.length - tail).map((text) => ({ kind: 'same', text })));
}
