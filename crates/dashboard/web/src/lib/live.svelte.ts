// The status as it comes in, and whether it still does.

import { asProblem, headers, problemOf, Refused, setToken, type Problem, type Status } from './api';

/** Without a status for so long, what is shown is no longer so. The agent sends one every few seconds. */
const STALE_AFTER = 20_000;

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

class Live {
  status = $state<Status | null>(null);
  /** The present, by this machine's clock; it goes on once a second. */
  clock = $state(Date.now());
  /** When the last status came, by this machine's clock. */
  heard = $state<number | null>(null);
  connected = $state(false);
  problem = $state<Problem | null>(null);
  /** How often somebody has said who they are: what was refused before is asked for again then. */
  entered = $state(0);
  /** How far this machine's clock is ahead of the agent's. */
  private ahead = 0;
  private wait = FIRST_WAIT;
  private retry: (() => void) | null = null;

  /** Whether what is shown may no longer be so. */
  get stale(): boolean {
    return this.status !== null && (!this.connected || this.clock - (this.heard ?? 0) > STALE_AFTER);
  }

  /** The present, by the agent's clock. */
  get now(): number {
    return this.clock - this.ahead;
  }

  start(): void {
    setInterval(() => (this.clock = Date.now()), 1000);
    window.addEventListener('online', () => this.again());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && !this.connected) this.again();
    });
    void this.listen();
  }

  /** Shows this token from now on. */
  enter(token: string): void {
    setToken(token);
    this.entered += 1;
    this.again();
  }

  /** Tries at once, and not only after the wait. */
  again(): void {
    this.wait = FIRST_WAIT;
    this.retry?.();
  }

  private async listen(): Promise<never> {
    for (;;) {
      try {
        await this.follow();
        this.problem = { kind: 'unavailable', what: 'the agent closed the connection', causes: [], remedy: null };
      } catch (error) {
        this.problem = asProblem(error);
      }
      this.connected = false;
      this.clock = Date.now();
      await this.pause();
    }
  }

  private pause(): Promise<void> {
    const wait = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.retry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** An EventSource could not say who asks, so the stream is read here. */
  private async follow(): Promise<void> {
    const silence = new AbortController();
    let alarm = setTimeout(() => silence.abort(), STALE_AFTER);
    try {
      const answer = await fetch('./api/v1/events', { headers: headers(), signal: silence.signal });
      if (!answer.ok || !answer.body) throw new Refused(await problemOf(answer));
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(alarm);
        alarm = setTimeout(() => silence.abort(), STALE_AFTER);
        text += value;
        const events = text.split('\n\n');
        text = events.pop() ?? '';
        for (const event of events) this.take(event);
      }
    } finally {
      clearTimeout(alarm);
    }
  }

  private take(event: string): void {
    const data = event
      .split('\n')
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice(5).trimStart());
    if (data.length === 0) return;
    const status = JSON.parse(data.join('\n')) as Status;
    this.clock = Date.now();
    this.heard = this.clock;
    this.ahead = this.clock - Date.parse(status.now);
    this.status = status;
    this.connected = true;
    this.problem = null;
    this.wait = FIRST_WAIT;
  }
}

export const live = new Live();
