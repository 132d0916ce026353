// Makes a page of the dashboard live.

import { drawer } from "./drawer.js";
import { head } from "./header.js";
import { follow } from "./live.js";
import { orders } from "./orders.js";
import { Page } from "./page.js";
import { bar } from "./window.js";

const page = new Page();
bar(page);
head(page);
orders(page);
follow(page);
drawer(page);
page.settle();
