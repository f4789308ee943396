"""Builds the module with CMake and takes what `cmake --install --component python` puts beside it.

KODAMA_BUILD=DIR takes a build that there is; else build/pip is made.
"""

import os
import pathlib
import re
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        build = os.environ.get("KODAMA_BUILD")
        if not build:
            build = ROOT / "build" / "pip"
            subprocess.run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                            "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", "-DKODAMA_UNITY=ON",
                            f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
            subprocess.run(["cmake", "--build", build, "--target", "kodama_python"], check=True)
        package = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", package.parent], check=True)


VERSION = re.search(r"project\(kodama VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)

setup(version=VERSION, ext_modules=[Extension("kodama._kodama", [])], cmdclass={"build_ext": CMakeBuild})
