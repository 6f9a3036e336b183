// Loaded by every page. Each module finds its own elements by data attributes; none needs a call from a page.
import "./theme.js";
import "./menu.js";
import "./dialogs.js";
import "./toast.js";
import "./forms.js";
import "./focus.js";
import "./select.js";
import "./keys.js";
import "./live.js";
