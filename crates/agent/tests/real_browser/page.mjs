// What a person on call does with the page, in a real browser.

import assert from 'node:assert/strict';
import { card, end, expect, picture, see, stage, step, visit } from './browser.mjs';

const become = async (scene) => assert.ok((await fetch(`${stage}/stage/${scene}`, { method: 'POST' })).ok);

const page = await visit();

await step('it is recoverable: to when, how far proven, and how long it would take', async () => {
  await page.goto(stage);
  const headline = card(page, 'Recoverable');
  await see(headline.getByText('Recoverable', { exact: true }));
  const text = await headline.innerText();
  assert.match(text, /to \d\d:\d\d:\d\d/);
  assert.match(text, /about 8\.2 s · measured by a drill/);
  assert.match(text, /1\u202f500 · 12 not sealed yet/);
  for (const level of ['sealed', 'sound', 'anchored', 'drilled']) assert.ok(text.includes(level), level);
  assert.match(await page.title(), /^● prod/);
  await see(page.getByText('live', { exact: true }));
});

await step('the timeline shows lineages, and the hole', async () => {
  const timeline = card(page, 'Timeline');
  await see(timeline.locator('svg .range'));
  assert.equal(await timeline.getByRole('slider').count(), 2);
  assert.equal(await timeline.locator('[data-hole="640"]').count(), 1);
  const hole = await timeline.locator('[data-hole="640"]').boundingBox();
  assert.ok(hole.width > 20, 'wide enough to be seen');
  await see(timeline.getByText(/everything after revision 640 .* until 720 .* is missing/));
  // In the middle of the hole nothing can be restored; beside it, it can.
  await page.mouse.click(hole.x + hole.width / 2, hole.y + hole.height / 2);
  await see(timeline.getByText('is in a hole: it cannot be restored'));
  await page.mouse.click(hole.x + hole.width + 60, hole.y + hole.height / 2);
  await see(timeline.getByRole('link', { name: 'Plan a restore' }));
  await picture(page, 'overview-light');
});

await step('members, capture, destinations and upkeep are told', async () => {
  const members = await card(page, 'Members').innerText();
  for (const said of ['etcd-0', 'leader', '3.6.16', '870 MiB', '58 % waste', '4 behind']) assert.ok(members.includes(said), `${said} in ${members}`);
  const capture = await card(page, 'Capture').innerText();
  for (const said of ['following every change', '24.3', 'revisions per second', 'epoch 14', 'merging 12 deltas']) assert.ok(capture.includes(said), `${said} in ${capture}`);
  const destinations = await card(page, 'Destinations').innerText();
  for (const said of ['s3://acme-backups/etcd', 'no point', '3.2 GiB', 'no full leads to revision 5 to 40']) assert.ok(destinations.includes(said), `${said} in ${destinations}`);
  const upkeep = await card(page, 'Upkeep').innerText();
  for (const said of ['no permission', 'running', 'not scheduled', 'never']) assert.ok(upkeep.includes(said), `${said} in ${upkeep}`);
  await see(card(page, 'Findings').getByText('58 % of its database file is waste'));
});

await step('what is late, lost or not known is not shown as well', async () => {
  const headline = card(page, 'Recoverable');
  await become('late');
  await see(headline.getByText('Recoverable, but less than promised'));
  await see(headline.getByText('reckoned, not measured'));
  assert.match(await page.title(), /^▲/);
  await picture(page, 'late');
  await become('lost');
  await see(headline.getByText('Not recoverable'));
  await see(headline.getByText(/chunk 17 does not give its digest/));
  await see(card(page, 'Findings').getByText('critical'));
  await see(card(page, 'Capture').getByText('waiting for a store'));
  assert.equal(await headline.locator('.reached').count(), 0);
  assert.match(await page.title(), /^✕/);
  await picture(page, 'lost');
  await become('beginning');
  await see(headline.getByText('Not known yet'));
  assert.equal(await page.locator('main .dot.healthy, main .dot.yes').count(), 0, 'unknown is not well');
  await picture(page, 'beginning');
  await become('well');
  await see(headline.getByText('Recoverable', { exact: true }));
});

await step('an agent that is gone makes all of it stale, until it is back', async () => {
  expect(/502|ERR_|Failed to load resource/);
  const headline = card(page, 'Recoverable');
  await become('away');
  await see(page.getByText(/stale since \d\d:\d\d:\d\d/));
  await see(headline.getByText(/Not known now\. This was so at/));
  await see(headline.getByText('was recoverable to'));
  assert.equal(await page.locator('main .dot.healthy, main .dot.yes').count(), 0, 'stale is not well');
  assert.match(await page.title(), /^\?/);
  await picture(page, 'stale');
  await become('well');
  await page.getByRole('button', { name: 'Reconnect' }).click().catch(() => {});
  await see(page.getByText('live', { exact: true }));
  await see(headline.getByText('Recoverable', { exact: true }));
  expect(null);
});

await step('points are listed with their proofs, and the hole between them', async () => {
  await page.getByRole('link', { name: 'Points' }).click();
  await see(page.getByText('Missing: everything after revision 640 until 720', { exact: false }));
  await see(page.getByText('The newest point of which everything is proven'));
  const rows = page.getByRole('row');
  const all = await rows.count();
  await picture(page, 'points');
  await page.getByLabel('Proven at least').selectOption('drilled');
  await page.waitForFunction((all) => document.querySelectorAll('tr').length < all, all);
  assert.ok((await page.getByText('drilled').count()) > 1);
  await page.getByLabel('Kind').selectOption('full');
  await page.waitForFunction(() => [...document.querySelectorAll('tbody tr:not(.hole)')].length === 1);
});

await step('changes that no full leads to are told where points are, and beside the timeline', async () => {
  await page.route('**/api/v1/points*', async (route) => {
    const response = await route.fetch();
    const told = await response.json();
    told.lineages[0].baseless = { lineage: told.lineages[0].lineage, from: 5, to: 40, sure: false };
    await route.fulfill({ response, json: told });
  });
  await page.getByRole('link', { name: 'Now', exact: true }).click();
  await page.getByRole('link', { name: 'Points' }).click();
  await see(page.getByText('The changes from revision 5 to 40 have no full to start from, as far as names tell.'));
  await page.getByRole('link', { name: 'Now', exact: true }).click();
  await see(card(page, 'Timeline').getByText(/the changes from revision 5 to 40 have no full to start from/));
  await page.unrouteAll({ behavior: 'wait' });
});

await step('a key that was deleted is found in its history, with what it was', async () => {
  await page.getByRole('link', { name: 'Keys', exact: true }).click();
  await see(page.getByText(/at revision 1\u202f500/));
  await page.getByLabel('Keys that begin with').fill('/registry/deployments/');
  await page.getByLabel('At', { exact: true }).fill('1199');
  await page.getByRole('button', { name: 'Look', exact: true }).click();
  await see(page.getByText(/at revision 1\u202f199/));
  const keys = card(page, 'Keys');
  await see(keys.getByText('/registry/deployments/shop/web'));
  assert.equal(await keys.getByText('/registry/deployments/shop/checkout').count(), 0);
  await page.getByLabel('At', { exact: true }).fill('999');
  await page.getByLabel('At', { exact: true }).press('Enter');
  await see(page.getByText(/at revision 999/));
  await keys.getByText('/registry/deployments/shop/checkout').click();
  const key = card(page, 'Key');
  await see(key.getByText('"replicas": 5', { exact: false }));
  await picture(page, 'keys');

  const base64 = Buffer.from('/registry/deployments/shop/checkout').toString('base64');
  await page.goto(`${stage}/#/keys?at=1199&prefix=/registry/deployments/&key=${encodeURIComponent(base64)}`);
  await see(key.getByText('Deleted at revision 1', { exact: false }));
  await see(key.getByText('"replicas": 5', { exact: false }));
  await picture(page, 'deleted');
  assert.match(await key.getByRole('link', { name: 'Plan a restore to the moment before' }).getAttribute('href'), /at=999/);
});

await step('a value can be held against the one before it, and bytes are shown as such', async () => {
  await page.goto(`${stage}/#/keys?at=640&prefix=/registry/deployments/shop/checkout&key=${encodeURIComponent(Buffer.from('/registry/deployments/shop/checkout').toString('base64'))}`);
  const key = card(page, 'Key');
  await key.getByRole('button', { name: 'Show what changed' }).click();
  await see(key.locator('.lines .gone', { hasText: '"replicas": 3' }));
  await see(key.locator('.lines .new', { hasText: '"replicas": 5' }));
  await picture(page, 'changed');
  await page.goto(`${stage}/#/keys?prefix=/registry/secrets/&key=${encodeURIComponent(Buffer.from('/registry/secrets/shop/token').toString('base64'))}`);
  await see(card(page, 'Key').getByText('Kubernetes object', { exact: false }));
  await see(card(page, 'Key').getByText('6b 38 73 00', { exact: false }));
});

await step('two points are compared, key by key', async () => {
  await page.getByRole('link', { name: 'Compare', exact: true }).click();
  await page.getByLabel('What changed from').fill('999');
  await page.getByLabel('to', { exact: true }).fill('1010');
  await page.getByRole('button', { name: 'Compare' }).click();
  const found = card(page, 'Differences');
  await see(found.getByText('1 deleted'));
  await found.getByRole('button', { name: '/registry/deployments/shop/checkout' }).click();
  await see(found.locator('pre .gone', { hasText: '"replicas": 5' }));
  await picture(page, 'compare');
});

await step('what cannot be had is refused with what can', async () => {
  expect(/404|400|Failed to load resource/);
  await page.goto(`${stage}/#/restore?at=700`);
  const alert = page.getByRole('alert');
  await see(alert.getByText(/revision 700 cannot be restored/));
  await see(alert.getByText(/revision 640 is the last before the hole, revision 720 the first after it/));
  assert.equal(await page.getByRole('button', { name: /^Restore/ }).count(), 0);
  await picture(page, 'refused');
  await page.getByLabel('A revision, a time').fill('2026-11-21');
  await page.getByRole('button', { name: 'Show the plan' }).click();
  await see(alert.getByText('a time needs its date', { exact: false }));
  expect(null);
});

await step('a restore shows its plan first, and wants the name of the cluster', async () => {
  await page.goto(`${stage}/#/restore?at=999`);
  const plan = card(page, 'Plan');
  await see(plan.getByText('nothing was done yet'));
  const text = await plan.innerText();
  for (const said of ['revision 999', '513 revisions', 'sound', 'a full and 5 deltas', '/var/lib/etcd.kept-', 'refloat undo', 'refloat restore file://', '--at 999', 'stop etcd-1']) {
    assert.ok(text.includes(said), `${said} in ${text}`);
  }
  const button = page.getByRole('button', { name: 'Restore revision 999' });
  assert.ok(await button.isDisabled());
  await page.getByLabel('The name of the cluster').fill('staging');
  assert.ok(await button.isDisabled(), 'another cluster is not this one');
  await picture(page, 'plan');
  await page.getByLabel('The name of the cluster').fill('prod');
  await button.click();
  await see(page.getByText('Revision 999 is restored'));
  await see(page.getByText('/var/lib/etcd.kept-20261121T120000Z').last());
  await picture(page, 'restored');
});

await step('all of it works without a mouse', async () => {
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent?.trim() ?? '');
  await page.goto(`${stage}/#/`);
  await see(card(page, 'Timeline').getByRole('slider'));
  await page.keyboard.press('3');
  await see(card(page, 'Keys'));
  await page.keyboard.press('/');
  await page.keyboard.type('/registry/leases/');
  await page.keyboard.press('Enter');
  await see(page.getByText('12 keys'));
  await page.keyboard.press('Escape');
  await page.keyboard.press('1');
  const line = card(page, 'Timeline').getByRole('slider').first();
  await see(line);
  for (let tabs = 0; !(await focused()).startsWith('Lineage') && tabs < 40; tabs += 1) await page.keyboard.press('Tab');
  assert.match(await focused(), /^Lineage/);
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowLeft');
  await see(card(page, 'Timeline').getByRole('link', { name: 'Plan a restore' }));
  await picture(page, 'keyboard');
  while ((await focused()) !== 'Plan a restore') await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await see(card(page, 'Plan'));
});

await step('an agent that wants to know who asks gets a token', async () => {
  expect(/401|403|Failed to load resource/);
  const guarded = await visit({}, process.env.CLOSED);
  await guarded.goto(process.env.CLOSED);
  await see(guarded.getByText('The agent wants to know who asks'));
  await picture(guarded, 'token');
  await guarded.getByLabel('Token').fill('sesame');
  await guarded.keyboard.press('Enter');
  await see(guarded.locator('form').getByText('this token does not open it'));
  await guarded.getByLabel('Token').fill('open-sesame');
  await guarded.keyboard.press('Enter');
  await see(card(guarded, 'Recoverable').getByText('Recoverable', { exact: true }));
  await see(card(guarded, 'Timeline').locator('svg .range'));
  await guarded.context().close();
});

await step('keys and values are shown to others only when they say who they are', async () => {
  const known = await visit({}, process.env.BY_TOKEN);
  await known.goto(process.env.BY_TOKEN);
  await see(card(known, 'Recoverable').getByText('Recoverable', { exact: true }));
  const checkout = encodeURIComponent(Buffer.from('/registry/deployments/shop/checkout').toString('base64'));
  await known.goto(`${process.env.BY_TOKEN}/#/keys?at=999&prefix=/registry/deployments/&key=${checkout}`);
  await see(known.getByText('The agent wants to know who asks'));
  assert.equal(await known.getByLabel('Token').count(), 1);
  assert.equal(await known.getByText('"replicas": 5', { exact: false }).count(), 0);
  await picture(known, 'keys-token');
  await known.getByLabel('Token').fill('open-sesame');
  await known.keyboard.press('Enter');
  await see(card(known, 'Keys').getByText('/registry/deployments/shop/checkout'));
  await see(card(known, 'Key').getByText('"replicas": 5', { exact: false }));
  assert.equal(await known.getByLabel('Token').count(), 0);
  await known.context().close();
});

await step('where nobody can say who they are, the page tells what is missing, and shows the rest', async () => {
  const stranger = await visit({}, process.env.WITHHELD);
  for (const view of ['keys?prefix=/registry/secrets/', 'diff?from=999&to=1010']) {
    await stranger.goto(`${process.env.WITHHELD}/#/${view}`);
    const told = card(stranger, 'Not shown');
    await see(told.getByText('--token-file names a file', { exact: false }));
    assert.equal(await stranger.getByRole('alert').count(), 0, 'it is no error');
    assert.equal(await stranger.getByLabel('Token').count(), 0, 'no token opens it');
    await picture(stranger, `withheld-${view.split('?')[0]}`);
  }
  expect(null);
  await stranger.goto(`${process.env.WITHHELD}/#/points`);
  await see(stranger.locator('main tbody tr'));
  await stranger.context().close();
});

/** The colours of the page and of its text, and each text that is hard to read, as people's eyes weigh light. */
const colours = (page) => page.evaluate(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const [red, green, blue, opaque = 1] = parts(getComputedStyle(element).backgroundColor);
    return opaque > 0 ? [red, green, blue] : behind(element.parentElement);
  };
  const hard = [];
  let count = 0;
  for (const element of document.querySelectorAll('body *:not(svg *, :disabled)')) {
    const says = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!says || !element.checkVisibility()) continue;
    const [text, ground] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    count += 1;
    if (contrast < 4.5) hard.push(`${contrast.toFixed(2)}: ${element.textContent.trim()}`);
  }
  const { backgroundColor, color } = getComputedStyle(document.body);
  return { background: backgroundColor, text: color, count, hard };
});

await step('colours are light or dark as is chosen, that is remembered, and all text can be read on what is behind it', async () => {
  const chosen = await visit({ colorScheme: 'light' });
  await chosen.goto(stage);
  await see(card(chosen, 'Timeline').locator('svg .range'));
  const button = (choice) => chosen.getByRole('button', { name: `Colours: ${choice}` });
  const seen = async () => {
    const { hard, count, ...seen } = await colours(chosen);
    assert.deepEqual(hard, []);
    assert.ok(count > 50, `${count} texts were looked at`);
    return seen;
  };
  const light = await seen();
  await button('auto').click();
  await see(button('light'));
  assert.deepEqual(await seen(), light);
  await button('light').click();
  await see(button('dark'));
  const dark = await seen();
  assert.notEqual(dark.background, light.background);
  assert.notEqual(dark.text, light.text);
  await chosen.reload();
  await see(button('dark'));
  await see(card(chosen, 'Timeline').locator('svg .range'));
  assert.deepEqual(await seen(), dark, 'it is remembered');
  await button('dark').click();
  await see(button('auto'));
  assert.deepEqual(await seen(), light, 'as the system has it');
  await chosen.emulateMedia({ colorScheme: 'dark' });
  await chosen.waitForFunction((light) => getComputedStyle(document.body).color !== light, light.text);
  assert.deepEqual(await seen(), dark);
  await chosen.context().close();
});

for (const [name, options] of [
  ['dark', { colorScheme: 'dark' }],
  ['phone', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }],
  ['phone-dark', { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: 'dark' }],
]) {
  await step(`it can be read: ${name}`, async () => {
    const other = await visit(options);
    for (const [view, ready] of [
      ['', '.range'],
      ['points', 'tbody tr'],
      ['keys?at=1199&prefix=/registry/deployments/&key=' + encodeURIComponent(Buffer.from('/registry/deployments/shop/web').toString('base64')), 'pre'],
      ['diff?from=999&to=1010', 'li button'],
      ['restore?at=999', '.steps'],
    ]) {
      await other.goto(`${stage}/#/${view}`);
      await see(other.locator(`main ${ready}`));
      const [wide, window] = await other.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(wide <= window, `${view} is ${wide} wide, and there is room for ${window}`);
      assert.deepEqual((await colours(other)).hard, [], view);
      await picture(other, `${name}-${view.split('?')[0] || 'overview'}`);
    }
    await other.context().close();
  });
}

await end();
