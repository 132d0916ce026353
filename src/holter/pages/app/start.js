// Makes a page of the dashboard live.

import { follow } from "./live.js";
import { orders } from "./orders.js";
import { Page } from "./page.js";
import { bar } from "./window.js";

const page = new Page();
bar(page);
orders(page);
follow(page);
page.settle();
