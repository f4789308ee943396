"""What mkdocs.yml needs besides Markdown: the sections of docs/index.md are the menu, and sources that pages link to
become files of the site, under their paths."""
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def outside(page, target):
    """The path from the root of the project, if a page of docs/ links to something that isn't in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if ":" in target or path.startswith(("docs/", "../")) else path


def on_config(config):
    text = (Path(config["docs_dir"]) / "index.md").read_text(encoding="utf-8")
    config["nav"] = [{"Home": "index.md"}]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        pages = [found.group(1) for found in LINK.finditer(section) if found.group(1).endswith(".md")]
        config["nav"].append({section.partition("\n")[0]: pages})
    return config


def on_files(files, config):
    root = Path(config["config_file_path"]).parent
    for page in list(files.documentation_pages()):
        for found in LINK.finditer(Path(page.abs_src_path).read_text(encoding="utf-8")):
            path = outside(page.src_uri, found.group(1))
            if path and (root / path).is_file() and files.get_file_from_path("source/" + path) is None:
                source = File(path, str(root), config["site_dir"], config["use_directory_urls"])
                source.src_uri = source.dest_uri = source.url = "source/" + path
                source.abs_src_path = str(root / path)
                source.abs_dest_path = str(Path(config["site_dir"]) / "source" / path)
                files.append(source)
    return files


def on_page_markdown(markdown, page, config, files):
    root = Path(config["config_file_path"]).parent

    def rewritten(found):
        path = outside(page.file.src_uri, found.group(1))
        if path is None:
            return found.group(0)
        if (root / path).is_file():
            return "](" + posixpath.relpath("source/" + path, posixpath.dirname(page.file.src_uri) or ".") + ")"
        return f"](#) (`{path}` in the sources)"

    return LINK.sub(rewritten, markdown)
