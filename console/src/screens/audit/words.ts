const ACTIONS: Record<string, string> = {
  "key.create": "made a key",
  "key.update": "changed a key",
  "key.revoke": "revoked a key",
  "key.rotate": "gave a key a new secret",
  "team.put": "set a team",
  "team.delete": "deleted a team",
  "cache.purge": "emptied the cache",
  "config.change": "changed the configuration",
  "config.reload": "loaded the configuration",
  "payload.delete": "deleted a stored prompt",
  "clock.confirm": "confirmed the clock",
  "session.create": "signed in",
  "session.end": "signed out",
};

/** What an action did, in words. A new action is its own name. */
export function actionWords(action: string): string {
  return ACTIONS[action] ?? action;
}

/** The choices of the filter: kinds of actions, then each action. */
export function actionOptions(chosen: string | undefined): { value: string; label: string }[] {
  const kinds = [...new Set(Object.keys(ACTIONS).map((action) => `${action.split(".")[0]}.`))];
  const known = [...kinds, ...Object.keys(ACTIONS)];
  const all = chosen && !known.includes(chosen) ? [...known, chosen] : known;
  return [
    { value: "", label: "Any" },
    ...all.map((value) => ({ value, label: value.endsWith(".") ? `${value}* (all)` : value })),
  ];
}
