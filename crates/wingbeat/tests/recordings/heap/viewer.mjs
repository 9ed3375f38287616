// Opens a file in DHAT's viewer, and prints its contents. DRIVER VIEWER FILE
import { pathToFileURL } from "node:url";

const [driver, viewer, file] = process.argv.slice(2);
const { chromium } = await import(pathToFileURL(driver).href);
const browser = await chromium.launch({
  executablePath: process.env.BROWSER,
  args: ["--no-sandbox"],
});
const page = await browser.newPage();
const errors = [];
page.on("pageerror", (error) => errors.push(error.message));
await page.goto(pathToFileURL(viewer).href);
await page.setInputFiles("input[type=file]", file);
await page.getByText("Allocated at").first().waitFor();
console.log(await page.innerText("body"));
await browser.close();
if (errors.length > 0) {
  console.error(errors.join("\n"));
  process.exit(1);
}
