"""Server-rendered pages of the portal itself: sign-in, home, bases, tasks, notifications, account, errors."""
