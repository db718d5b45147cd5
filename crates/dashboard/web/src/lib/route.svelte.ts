// Which view is shown, and of what: all of it is in the address, so that a link shows the same to a colleague.

export const VIEWS = ['overview', 'points', 'keys', 'diff', 'restore'] as const;
export type View = (typeof VIEWS)[number];

class Route {
  view = $state<View>('overview');
  query = $state<Record<string, string>>({});

  start(): void {
    window.addEventListener('hashchange', () => this.read());
    this.read();
  }

  private read(): void {
    const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
    this.view = VIEWS.find((view) => view === path) ?? 'overview';
    this.query = Object.fromEntries(new URLSearchParams(query));
  }
}

export const route = new Route();

/** The address of a view. */
export function link(view: View, query: Record<string, string | number | null | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return `#/${view === 'overview' ? '' : view}${text ? `?${text}` : ''}`;
}

export function go(view: View, query: Record<string, string | number | null | undefined> = {}): void {
  location.hash = link(view, query);
}
