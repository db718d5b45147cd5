import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Names of files do not change, because the program names them; the agent tells browsers which version they have.
export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: { entryFileNames: 'app.js', assetFileNames: 'app[extname]' },
    },
  },
});
