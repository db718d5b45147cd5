// Numbers and times for people. What is not known is a dash, and never a zero.

export const DASH = '–';

/** Digits in groups: revisions are compared by eye. */
export function number(value: number | null | undefined): string {
  return value === null || value === undefined ? DASH : value.toLocaleString('en-US').replaceAll(',', '\u202f');
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return DASH;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}

/** A span of time, in the one or two largest units. */
export function span(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return DASH;
  const whole = Math.max(0, seconds);
  if (whole < 10 && whole % 1 !== 0) return `${whole.toFixed(1)} s`;
  if (whole < 60) return `${Math.round(whole)} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return minutes < 10 && whole % 60 >= 1 ? `${minutes} min ${Math.floor(whole % 60)} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function seconds(time: string, now: number): number {
  return Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
}

export function ago(time: string | null | undefined, now: number): string {
  return time ? `${span(seconds(time, now))} ago` : DASH;
}

export function until(time: string | null | undefined, now: number): string {
  if (!time) return DASH;
  const left = Math.round((Date.parse(time) - now) / 1000);
  return left <= 0 ? 'due' : `in ${span(left)}`;
}

const two = (value: number): string => String(value).padStart(2, '0');

/** The time of day here, to the second. */
export function clock(time: string | number): string {
  const at = new Date(time);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The day and the time of day here. */
export function moment(time: string | number | null | undefined): string {
  if (time === null || time === undefined) return DASH;
  const at = new Date(time);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(time)}`;
}

/** The day only if it is not today's. */
export function brief(time: string | number, now: number): string {
  return moment(time).slice(0, 10) === moment(now).slice(0, 10) ? clock(time) : moment(time);
}

/** Where this machine's clock is, as an offset from UTC. */
export function zone(): string {
  const minutes = -new Date().getTimezoneOffset();
  if (minutes === 0) return 'UTC';
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? '−' : '+'}${Math.floor(size / 60)}${size % 60 ? `:${two(size % 60)}` : ''}`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}
