// What somebody sees and does on the page of an etcd that others write to. What those do, the test does on etcd itself.

import assert from 'node:assert/strict';
import readline from 'node:readline';
import { card, end, expect, picture, see, stage, step, visit } from '../../../agent/tests/real_browser/browser.mjs';

const lines = readline.createInterface({ input: process.stdin });
const answers = lines[Symbol.asyncIterator]();

/** Has something done on etcd. Gives what came of it. */
async function ask(what) {
  console.log(`asks to ${what}`);
  const { value, done } = await answers.next();
  assert.ok(!done, 'nobody answers any more');
  return value;
}

/** An etcd that starts, and an agent that finds it, take their time on a machine that does much else. */
const LATER = { timeout: 90_000 };

const page = await visit();
const headline = card(page, 'Recoverable');
/** Waits until the page says that everything up to `revision` could be brought back. */
const recoverable = (revision) => see(headline.locator('.facts dd', { hasText: new RegExp(`^\\s*${revision}\\s*$`) }), LATER);
const keyed = (query) => `${stage}/#/keys?${new URLSearchParams(query)}`;

await step('before there is anything, nothing is said to be recoverable', async () => {
  // Of an archive that is empty the timeline cannot tell anything.
  expect(/404|503|Failed to load resource/);
  await page.goto(stage);
  await see(headline.getByText(/^\s*(Not known yet|Not recoverable)\s*$/));
  assert.match(await page.title(), /^[?✕] etcd/);
  await picture(page, 'real-beginning');
});

await step('an etcd that begins is recoverable, and so is what is written to it, as the page tells by itself', async () => {
  await ask('start');
  await see(headline.getByText('Recoverable', { exact: true }), LATER);
  for (const value of ['one', 'two', 'three']) await recoverable(await ask(`put /count ${value}`));
  assert.match(await page.title(), /^● etcd/);
  expect(null);
});

const created = await ask('put /greeting hello');
const changed = await ask('put /greeting hallo');
const deleted = await ask('delete /greeting');
const newest = await ask('put /later thing');

await step('what was sealed is listed', async () => {
  await recoverable(newest);
  await picture(page, 'real-recoverable');
  await page.getByRole('link', { name: 'Points', exact: true }).click();
  await see(page.locator('tbody td.num b', { hasText: new RegExp(`^${newest}$`) }), LATER);
});

await step('keys are shown as they were, and each with what became of it', async () => {
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByLabel('Keys that begin with').fill('/');
  await page.getByLabel('At', { exact: true }).fill(changed);
  await page.getByRole('button', { name: 'Look', exact: true }).click();
  await see(page.getByText(`at revision ${changed}`, { exact: true }));
  const keys = card(page, 'Keys');
  assert.equal(await keys.getByText('/later').count(), 0);
  await keys.getByText('/greeting').click();
  const key = card(page, 'Key');
  await see(key.locator('pre', { hasText: 'hallo' }));
  await key.getByRole('button', { name: new RegExp(`^${created}\\s*created`) }).click();
  await see(key.locator('pre', { hasText: 'hello' }));
  await picture(page, 'real-keys');

  await page.goto(keyed({ at: newest, prefix: '/', key: Buffer.from('/greeting').toString('base64') }));
  await see(key.getByText(`Deleted at revision ${deleted}`));
  await see(key.locator('pre', { hasText: 'hallo' }));
  await picture(page, 'real-deleted');
});

await step('a restore that is ordered there brings back what was', async () => {
  await page.getByRole('link', { name: 'Plan a restore to the moment before' }).click();
  const plan = card(page, 'Plan');
  await see(plan.getByText('nothing was done yet'));
  const text = await plan.innerText();
  for (const said of [`revision ${changed}`, '2 revisions', 'stop etcd', 'refloat undo --data-dir']) assert.ok(text.includes(said), `${said} in ${text}`);
  // Nothing in it is Kubernetes', so revisions go on from the one that is restored.
  assert.ok(!text.includes('goes on from'), text);
  assert.equal(await ask('get /greeting'), 'nothing', 'a plan changes nothing');
  await page.getByLabel('The name of the cluster').fill('etcd');
  await page.getByRole('button', { name: `Restore revision ${changed}` }).click();
  await see(page.getByText(`Revision ${changed} is restored`), LATER);
  await picture(page, 'real-restored');
  assert.equal(await ask('get /greeting'), 'hallo');
  assert.equal(await ask('get /later'), 'nothing');
});

await step('it goes on from there, in a lineage of its own', async () => {
  const again = await ask('put /greeting again');
  assert.equal(Number(again), Number(changed) + 1);
  await page.getByRole('link', { name: 'Now', exact: true }).click();
  await recoverable(again);
  await see(headline.getByText('Recoverable', { exact: true }), LATER);
  await page.getByRole('link', { name: 'Points', exact: true }).click();
  await see(page.getByText(new RegExp(`came from .* at revision ${changed}$`)), LATER);
  await picture(page, 'real-lineages');
});

await end();
lines.close();
