"""Our own line icons, drawn on a 24 × 24 grid with strokes; the template tag `icon` puts them into the page."""

from __future__ import annotations

ICONS: dict[str, str] = {
    "arch": '<path d="M4 21V11a8 8 0 0 1 16 0v10"/><path d="M9 21v-9a3 3 0 0 1 6 0v9"/><path d="M2.5 21h19"/>',
    "home": '<path d="M4 11.5 12 4l8 7.5"/><path d="M6 10v10h12V10"/><path d="M10 20v-6h4v6"/>',
    "bases": '<path d="M4 5.5h5l2 2.5h9v11H4z"/><path d="M8 13h8"/>',
    "ask": '<path d="M4 5h16v11h-8l-5 4v-4H4z"/><path d="M8.5 9h7M8.5 12h4.5"/>',
    "tasks": '<path d="M4 6.5 5.5 8 8 5M4 13l1.5 1.5L8 11.5M4 19.5l1.5 1.5L8 18"/>'
    '<path d="M12 7h8M12 13h8M12 19.5h8"/>',
    "search": '<circle cx="10.5" cy="10.5" r="6"/><path d="m15 15 5.5 5.5"/>',
    "bell": '<path d="M6 16.5V11a6 6 0 0 1 12 0v5.5l1.5 2h-15z"/><path d="M10 21h4"/>',
    "person": '<circle cx="12" cy="8" r="4"/><path d="M4.5 20.5c.8-4 3.7-6 7.5-6s6.7 2 7.5 6"/>',
    "people": '<circle cx="9" cy="8.5" r="3.5"/><path d="M2.5 19.5c.6-3.5 3-5.5 6.5-5.5s5.9 2 6.5 5.5"/>'
    '<path d="M15 5.3a3.5 3.5 0 0 1 0 6.4M17.5 14.6c2.2.7 3.6 2.4 4 4.9"/>',
    "key": '<circle cx="8" cy="15.5" r="4.5"/><path d="m11.3 12.3 8.2-8.3M16 7.5l3 3M13.5 10l2 2"/>',
    "settings": '<path d="M4 7h9M17 7h3M4 17h3M11 17h9"/><circle cx="15" cy="7" r="2"/><circle cx="9" cy="17" r="2"/>',
    "sliders": '<path d="M4 7h9M17 7h3M4 17h3M11 17h9"/><circle cx="15" cy="7" r="2"/><circle cx="9" cy="17" r="2"/>',
    "shield": '<path d="M12 3.5 19 6v6c0 4.5-3 7.3-7 8.5-4-1.2-7-4-7-8.5V6z"/><path d="m9 12 2.2 2.2L15.2 10"/>',
    "lock": '<path d="M6 11h12v9H6z"/><path d="M8.5 11V8a3.5 3.5 0 0 1 7 0v3"/>',
    "leave": '<path d="M13 4.5H5v15h8"/><path d="M10 12h10.5M17 8.5l3.5 3.5-3.5 3.5"/>',
    "menu": '<path d="M4 7h16M4 12h16M4 17h16"/>',
    "close": '<path d="m6 6 12 12M18 6 6 18"/>',
    "check": '<path d="m5 12.5 4.5 4.5L19 7.5"/>',
    "check-circle": '<circle cx="12" cy="12" r="8.5"/><path d="m8 12.5 2.7 2.7L16 9.8"/>',
    "cross-circle": '<circle cx="12" cy="12" r="8.5"/><path d="m9 9 6 6M15 9l-6 6"/>',
    "warning": '<path d="M12 4 2.8 20h18.4z"/><path d="M12 10v4.5M12 17.3v.2"/>',
    "info": '<circle cx="12" cy="12" r="8.5"/><path d="M12 11v5.5M12 7.7v.2"/>',
    "clock": '<circle cx="12" cy="12" r="8.5"/><path d="M12 7v5.3l3.5 2"/>',
    "working": '<path d="M12 3.5a8.5 8.5 0 1 1-8.5 8.5"/><path d="M12 8v4l2.5 2.5"/>',
    "pause": '<circle cx="12" cy="12" r="8.5"/><path d="M10 9v6M14 9v6"/>',
    "eye": '<path d="M2.5 12C5 7.5 8.2 5.5 12 5.5s7 2 9.5 6.5c-2.5 4.5-5.7 6.5-9.5 6.5S5 16.5 2.5 12z"/>'
    '<circle cx="12" cy="12" r="2.8"/>',
    "blank": '<path d="M6 3.5h8l4 4v13H6z"/><path d="M14 3.5v4h4"/><path d="m10 12 4 4M14 12l-4 4"/>',
    "stop": '<circle cx="12" cy="12" r="8.5"/><path d="m6 6 12 12"/>',
    "file": '<path d="M6 3.5h8l4 4v13H6z"/><path d="M14 3.5v4h4"/><path d="M9 12.5h6M9 16h4"/>',
    "folder": '<path d="M3.5 6h6l2 2.5h9V19h-17z"/>',
    "upload": '<path d="M12 15.5V4.5M7.5 8.5 12 4l4.5 4.5"/><path d="M4.5 15v5h15v-5"/>',
    "download": '<path d="M12 4v11M7.5 11 12 15.5l4.5-4.5"/><path d="M4.5 15v5h15v-5"/>',
    "plus": '<path d="M12 5v14M5 12h14"/>',
    "minus": '<path d="M5 12h14"/>',
    "edit": '<path d="m4.5 19.5 1-4L16 5l3 3L8.5 18.5z"/><path d="m13.5 7.5 3 3"/>',
    "trash": '<path d="M4.5 7h15M9.5 7V4.5h5V7M6.5 7l1 13h9l1-13"/><path d="M10.3 11v5M13.7 11v5"/>',
    "retry": '<path d="M19.5 5v5h-5"/><path d="M19 10a7.7 7.7 0 1 0 .8 4"/>',
    "undo": '<path d="M8.5 5 4 9.5 8.5 14"/><path d="M4.5 9.5H14a5.5 5.5 0 0 1 0 11h-3"/>',
    "copy": '<path d="M8.5 8.5h11v11h-11z"/><path d="M15.5 8.5v-4h-11v11h4"/>',
    "link": '<path d="M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1"/>'
    '<path d="M14 10a4 4 0 0 0-5.7 0l-3 3a4 4 0 0 0 5.7 5.7l1-1"/>',
    "open": '<path d="M13.5 4.5h6v6M19 5l-8 8"/><path d="M17 13.5v6H4.5V7h6"/>',
    "history": '<path d="M4.5 5v5h5"/><path d="M5 10a7.7 7.7 0 1 1-.8 4"/><path d="M12 8v4.5l3 1.8"/>',
    "left": '<path d="m14.5 5.5-6.5 6.5 6.5 6.5"/>',
    "right": '<path d="m9.5 5.5 6.5 6.5-6.5 6.5"/>',
    "up": '<path d="m5.5 14.5 6.5-6.5 6.5 6.5"/>',
    "down": '<path d="m5.5 9.5 6.5 6.5 6.5-6.5"/>',
    "sort": '<path d="m8.5 9.5 3.5-4 3.5 4M8.5 14.5l3.5 4 3.5-4"/>',
    "more": '<path d="M5.5 12h.1M12 12h.1M18.4 12h.1"/><circle cx="5.5" cy="12" r=".8"/>'
    '<circle cx="12" cy="12" r=".8"/><circle cx="18.5" cy="12" r=".8"/>',
    "theme": '<circle cx="12" cy="12" r="8"/><path d="M12 4a8 8 0 0 1 0 16z" fill="currentColor"/>',
    "sun": '<circle cx="12" cy="12" r="4"/>'
    '<path d="M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4"/>',
    "moon": '<path d="M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z"/>',
    "language": '<circle cx="12" cy="12" r="8.5"/><path d="M3.5 12h17"/>'
    '<path d="M12 3.5c5 5 5 12 0 17M12 3.5c-5 5-5 12 0 17"/>',
    "workspace": '<path d="M4.5 20V4.5h9V20M13.5 9.5h6V20"/><path d="M3 20h18"/>'
    '<path d="M7.5 8h3M7.5 12h3M7.5 16h3M16.5 13v.1M16.5 16.5v.1"/>',
    "chart": '<path d="M4.5 4.5v15h15"/><path d="M8.5 15.5v-4M12.5 15.5v-8M16.5 15.5v-5.5"/>',
    "target": '<circle cx="12" cy="12" r="8.5"/><circle cx="12" cy="12" r="4.5"/><circle cx="12" cy="12" r=".8"/>',
    "merge": '<path d="M6 4v5l6 4 6-4V4"/><path d="M12 13v7.5"/>',
    "split": '<path d="M12 3.5V10l-6 4v6M12 10l6 4v6"/>',
    "send": '<path d="M4 12 20 4.5 15 20l-3.5-6.5z"/><path d="m11.5 13.5 4-4"/>',
    "thumb-up": '<path d="M4.5 11h3v9h-3zM7.5 11l4-7c1.8 0 2.5 1.3 2 3l-.7 2.5h6.2l-1.5 9.3-1 1.2h-9"/>',
    "thumb-down": '<path d="M4.5 13h3V4h-3zM7.5 13l4 7c1.8 0 2.5-1.3 2-3l-.7-2.5h6.2L17.5 5.2 16.5 4h-9"/>',
    "help": '<circle cx="12" cy="12" r="8.5"/>'
    '<path d="M9.5 9.7c.2-1.5 1.2-2.3 2.6-2.3s2.5.9 2.5 2.2c0 1.9-2.6 2-2.6 4"/>'
    '<path d="M12 16.5v.2"/>',
    "filter": '<path d="M4 5.5h16l-6.3 7.3V19l-3.4-1.8v-4.4z"/>',
    "pin": '<path d="M12 21v-6M7 15h10l-1.5-3V5.5L17 4H7l1.5 1.5V12z"/>',
}
