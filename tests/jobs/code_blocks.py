"""Code blocks of Markdown pages."""

import re

BASH = re.compile(r"^ *```bash\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
