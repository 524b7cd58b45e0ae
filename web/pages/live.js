// What is asked again and again while somebody looks.

import { useEffect, useRef, useState } from "./vendor/hooks.js";

// useLive gives what ask(signal) answered last, and asks again `every` ms (or every(data)) after each
// answer as long as the page can be seen, less often where an answer takes long: it asks for
// at most a fifth of the time; at once when one of `on` changes. {data, error,
// stale, again}: an error leaves the data of before, and says since when they are old.
export function useLive(ask, every, on) {
  const [state, set] = useState({ data: null, error: null, at: 0 });
  const rouse = useRef(() => {});
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0, busy = false;
    set({ data: null, error: null, at: 0 });
    const next = async () => {
      clearTimeout(timer);
      if (busy || stop.signal.aborted) return;
      busy = true;
      const begun = Date.now();
      let pause = typeof every === "function" ? 0 : every;
      try {
        const data = await ask(stop.signal);
        if (typeof every === "function") pause = every(data);
        if (!stop.signal.aborted) set({ data, error: null, at: Date.now() });
      } catch (error) {
        pause = pause || 2000; // also of what is asked for once: it has no answer yet
        if (!stop.signal.aborted) set((old) => ({ ...old, error }));
      }
      busy = false;
      if (pause && !document.hidden && !stop.signal.aborted) timer = setTimeout(next, Math.max(pause, 4 * (Date.now() - begun)));
    };
    const seen = () => { if (!document.hidden) next(); };
    document.addEventListener("visibilitychange", seen);
    rouse.current = next;
    next();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, on);
  return { ...state, again: () => rouse.current() };
}

// useNow makes what shows ages be drawn again every second.
export function useNow() {
  const [, set] = useState(0);
  useEffect(() => {
    const t = setInterval(() => set((n) => n + 1), 1000);
    return () => clearInterval(t);
  }, []);
}
