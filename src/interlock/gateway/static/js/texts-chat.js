export const CHAT_TEXTS = { en: {}, zh: {} };
