#!/usr/bin/env python3
"""check_site.py ROOT OUTPUT: builds the site of docs/ and follows every link in it.

Fails on a link to a page, file or heading that isn't there, and on anything that a page would load from elsewhere.
Skipped (exit code 77) without mkdocs.
"""
import html.parser
import pathlib
import shutil
import subprocess
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.names = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names.update(given[key] for key in ("id", "name") if given.get(key))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        for key in ("src", "href"):
            if tag in ("script", "img", "link", "iframe") and given.get(key) and given.get("rel") != "canonical":
                self.loads.append(given[key])


def main():
    root, site = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if shutil.which("mkdocs") is None:
        print("skipped: mkdocs isn't installed")
        return 77
    built = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "-f", root / "mkdocs.yml", "-d", site], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if built.returncode:
        print(built.stdout)
        return 1
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    errors, count = [], 0
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for link in page.loads + page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads:
                    errors.append(f"{where}: would load {link}")
                continue
            count += 1
            # A server's page for what isn't there (404.html) says where from the top of the site.
            base = site if parts.path.startswith("/") else path.parent
            target = (base / urllib.parse.unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                errors.append(f"{where}: {link}: there is no such file")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].names:
                errors.append(f"{where}: {link}: there is no such heading")
    listed = (root / "docs/index.md").read_text(encoding="utf-8")
    for page in sorted([*root.glob("docs/*.md"), *root.glob("docs/tutorials/*.md")]):
        name = page.relative_to(root / "docs").as_posix()
        if name != "index.md" and f"({name})" not in listed:
            errors.append(f"docs/index.md: {name} is missing")
    print("\n".join(sorted(set(errors))) or f"{len(pages)} pages, {count} links, all of them lead somewhere")
    return 1 if errors or len(pages) < 20 else 0


sys.exit(main())
