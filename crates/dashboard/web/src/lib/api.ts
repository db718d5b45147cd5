// What the agent tells, as the crate `api` has it, and how it is asked.

export type Proof = 'unproven' | 'sealed' | 'sound' | 'anchored' | 'drilled';
export type Health = 'healthy' | 'failing' | 'unknown';

export interface Reached { proof: Proof; revision: number; time: string | null; shown: string }
export interface Trouble { at: string; what: string; goes_on: boolean }
export interface Outcome { at: string; took_seconds: number; succeeded: boolean; what: string }
export interface Task { running_since: string | null; last: Outcome | null; next: string | null }
export interface Sample {
  at: string;
  revision_seen: number;
  revision_sealed: number | null;
  db_size_bytes: number | null;
  db_in_use_bytes: number | null;
}

export interface Member {
  name: string;
  id: string;
  endpoints: string[];
  role: 'leader' | 'follower' | 'learner' | null;
  health: Health;
  trouble: string | null;
  heard: string | null;
  version: string | null;
  db_size_bytes: number | null;
  db_in_use_bytes: number | null;
  quota_bytes: number | null;
  raft_index: number | null;
  revision: number | null;
  alarms: string[];
}

export interface Destination {
  place: string;
  health: Health;
  trouble: Trouble | null;
  reached: Reached[];
  objects: number | null;
  size_bytes: number | null;
  baseless: Baseless[];
}

export interface Restoring {
  plan: string;
  lineage: string | null;
  revision: number | null;
  began: string;
  step: string;
  done: number | null;
  ended: { at: string; failure: string | null; kept: string | null } | null;
}

export interface Finding {
  severity: 'critical' | 'warning' | 'note';
  place: string;
  what: string;
  remedy: string | null;
  since: string | null;
}

export interface Status {
  now: string;
  agent: { name: string; version: string; began: string };
  cluster: { name: string; archive_id: string | null; etcd_id: string | null; version: string | null };
  recoverable: {
    verdict: 'yes' | 'late' | 'no' | 'unknown';
    why_not: string | null;
    until: string | null;
    revision: number | null;
    lineage: string | null;
    proof: Proof;
    proven: Reached[];
    restore_seconds: number | null;
    restore_measured: boolean;
  };
  members: Member[];
  capture: {
    state: 'starting' | 'following' | 'taking_full' | 'standing_by' | 'waiting_for_store' | 'waiting_for_etcd' | 'stopped';
    since: string | null;
    member: string | null;
    holder: string | null;
    epoch: number | null;
    revision_seen: number | null;
    revision_sealed: number | null;
    revisions_per_second: number | null;
    seal_after_seconds: number;
    spool: { objects: number; size_bytes: number; limit_bytes: number };
    trouble: Trouble | null;
  };
  destinations: Destination[];
  upkeep: Record<'anchor' | 'merge' | 'prune' | 'verify' | 'reread' | 'drill' | 'defragment', Task>;
  doing: { what: string; since: string; done: number | null }[];
  restoring: Restoring | null;
  findings: Finding[];
  samples: Sample[];
}

export interface Point {
  revision: number | null;
  time: string;
  kind: 'full' | 'delta';
  from: number | null;
  level: number | null;
  proof: Proof;
  proven: string | null;
  size_bytes: number;
  name: string;
  key: string;
}

export interface Range { from: number; to: number; from_time: string | null; to_time: string | null }
export interface Hole { after: number; next: number | null; beyond: number | null; sure: boolean }

export interface Baseless { lineage: string | null; from: number; to: number; sure: boolean }

export interface Lineage {
  lineage: string | null;
  parent: { lineage: string; revision: number } | null;
  ranges: Range[];
  baseless: Baseless | null;
  holes: Hole[];
  levels: { level: number; count: number; size_bytes: number; from: number; to: number }[];
  points: Point[];
  left_out: number;
}

export interface Timeline {
  destination: string;
  layout: string;
  cluster: string | null;
  listed: string;
  lineages: Lineage[];
  newest_proven: { lineage: string | null; revision: number; proof: Proof } | null;
  unreadable: string[];
  strangers: number;
}

export interface Place { lineage: string | null; revision: number; compact_revision: number; notes: string[] }
export interface Listed {
  key: string;
  key_base64: string;
  create_revision: number;
  mod_revision: number;
  version: number;
  size_bytes: number;
  lease: string | null;
}
export interface Bytes { text: string | null; base64: string | null; size_bytes: number; cut: boolean }
export interface Keys { place: Place; count: number; keys: Listed[]; next: string | null }
export interface Found { place: Place; key: Listed; value: Bytes }
export interface Change {
  revision: number;
  sub_revision: number;
  deleted: boolean;
  create_revision: number;
  version: number;
  size_bytes: number;
  lease: string | null;
}
export interface History { place: Place; key: string; key_base64: string; count: number; changes: Change[] }
export interface Differing {
  key: string;
  key_base64: string;
  change: 'created' | 'changed' | 'deleted';
  mod_revision_before: number | null;
  mod_revision_after: number | null;
}
export interface Diff { from: Place; to: Place; created: number; changed: number; deleted: number; keys: Differing[] }

export interface Wish { at: string; lineage: string | null }
export interface Plan {
  id: string;
  wish: Wish;
  read: {
    destination: string;
    layout: string;
    lineage: string | null;
    revision: number | null;
    time: string | null;
    proof: Proof;
    full: string;
    deltas: string[];
    size_bytes: number;
    estimated_seconds: number | null;
    set_aside: string[];
    notes: string[];
  };
  loss: { revisions: number; newest: number; seconds: number | null } | null;
  here: { data_dir: string; kept: string | null; begins_at: number | null; steps: string[]; undo: string } | null;
  why_not_here: string | null;
  command: string;
}

export interface Problem { kind: string; what: string; causes: string[]; remedy: string | null }

/** Something that the agent did not do, and why. */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.what);
  }
}

const TOKEN = 'refloat-token';

/** The token that requests carry, for this tab only. */
export function setToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

export function headers(): Record<string, string> {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function read<T>(answer: Response): Promise<T> {
  if (answer.ok) return (await answer.json()) as T;
  throw new Refused(await problemOf(answer));
}

/** Why a request was refused, also where something between here and the agent says so. */
export async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  const told = inOwnWords(text);
  // A store that denies something is opened by no token: where one opens it, HTTP says so.
  if (answer.headers.has('www-authenticate')) {
    return { kind: 'closed', what: told?.what ?? text.trim(), causes: [], remedy: told?.remedy ?? null };
  }
  return told ?? { kind: 'unavailable', what: `the answer was ${answer.status} ${answer.statusText}`.trim(), causes: [], remedy: null };
}

function inOwnWords(text: string): Problem | null {
  try {
    const problem = JSON.parse(text) as Partial<Problem>;
    if (typeof problem.what === 'string') {
      return { kind: problem.kind ?? 'unavailable', what: problem.what, causes: problem.causes ?? [], remedy: problem.remedy ?? null };
    }
  } catch {
    // Not the agent's own words.
  }
  return null;
}

export async function get<T>(path: string, query: Record<string, string | number | null | undefined> = {}): Promise<T> {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return read(await fetch(`./api/v1/${path}${text ? `?${text}` : ''}`, { headers: headers() }));
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return read(
    await fetch(`./api/v1/${path}`, {
      method: 'POST',
      headers: { ...headers(), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  );
}

/** What went wrong, whatever it was. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Refused) return error.problem;
  return { kind: 'unavailable', what: 'the agent cannot be reached', causes: [String(error)], remedy: null };
}
