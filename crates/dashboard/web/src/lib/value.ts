// A value as a person reads it.

import type { Bytes } from './api';

/** Text, with JSON laid out; or bytes in hexadecimal beside what can be read of them. */
export function shown(value: Bytes): string {
  if (value.text !== null) return laidOut(value.text);
  return hexadecimal(Uint8Array.from(atob(value.base64 ?? ''), (byte) => byte.charCodeAt(0)));
}

function laidOut(text: string): string {
  // Parsing would change numbers that are larger than a number can be here.
  if (!/^\s*[[{]/.test(text) || /\d{16}/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function hexadecimal(bytes: Uint8Array): string {
  const lines = [];
  for (let at = 0; at < bytes.length && at < 16 * 4096; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47);
    const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex}  ${text}`);
  }
  return lines.join('\n');
}

/** What it is, in a word or two. */
export function kind(value: Bytes): string {
  if (value.size_bytes === 0) return 'empty';
  if (value.text !== null) return /^\s*[[{]/.test(value.text) ? 'JSON' : 'text';
  const head = atob(value.base64 ?? '').slice(0, 64);
  if (head.startsWith('k8s:enc:')) return `encrypted by Kubernetes (${head.split(':').slice(2, 3).join('')})`;
  return head.startsWith('k8s\0') ? 'Kubernetes object' : 'bytes';
}
