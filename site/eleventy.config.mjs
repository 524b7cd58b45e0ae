// How Eleventy makes the site: `make site` has written the content before.
import anchor from "markdown-it-anchor";

// slug is a heading's anchor, as GitHub makes it.
const slug = (s) => s.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-");

export default function (config) {
  config.setUseGitIgnore(false); // the content is in bin
  config.addPassthroughCopy({ "../docs/images": "images" });
  config.amendLibrary("md", (md) => md.set({ html: true, linkify: false, typographer: false }).use(anchor, { slugify: slug, tabIndex: false }));
  return {
    dir: { input: "../bin/site/content", output: "../bin/site/public", includes: "../../../site/layouts", data: "_data" },
    templateFormats: ["md"],
    markdownTemplateEngine: false,
    htmlTemplateEngine: "njk",
  };
}
