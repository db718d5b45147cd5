// A real browser, for scripts that do with the page what people do.
//
// Every wait is for something that the page shows. Whatever the page says on its console, fetches from elsewhere or is
// forbidden by its policy makes the whole fail.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';

const { chromium } = createRequire(path.join(process.env.PLAYWRIGHT, 'x.js'))('playwright-core');
const browser = await chromium.launch(JSON.parse(process.env.CHROMIUM));
const wrong = [];
let expected = null;
let visited = null;

/** Where the page is. */
export const stage = process.env.STAGE;

/** Answers that are given on purpose, as the console tells of them; null if there are none any more. */
export function expect(answers) {
  expected = answers;
}

/** A page, which asks nobody for anything but where it is `from`. */
export async function visit(options = {}, from = stage) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, timezoneId: 'UTC', ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  page.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return;
    if (expected?.test(message.text())) return;
    wrong.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => wrong.push(`error: ${error.stack}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(`${from}/`)) wrong.push(`request: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  visited = page;
  return page;
}

export const picture = (page, name, options = {}) => page.screenshot({ path: path.join(process.env.PICTURES, `${name}.png`), fullPage: true, ...options });
export const card = (page, name) => page.getByRole('region', { name, exact: true });
export const see = (locator, options = {}) => locator.first().waitFor({ state: 'visible', ...options });

export async function step(name, act) {
  try {
    await act();
  } catch (error) {
    await picture(visited, 'failed').catch(() => {});
    console.log(`failed: ${name}\n${wrong.join('\n')}`);
    throw error;
  }
  console.log(`ok ${name}`);
}

/** Leaves. Nothing may have gone wrong that no step looked for. */
export async function end() {
  await browser.close();
  assert.deepEqual(wrong, []);
  console.log('all was as it should be');
}
