#!/usr/bin/env python3
"""Run the Python examples of docs/models.md and say what their libraries predict.

    docs.py FOLDER

Writes FOLDER/customers.csv, the table that the examples read, and for each example NAME
FOLDER/NAME/{NAME.onnx, statements.sql, expected.csv}: the SQL that follows it in the document and,
of each row of the table, the label and the probability of each class, or the number.
FOLDER/examples lists them: "NAME ok KIND", "NAME skip LIBRARY" or "NAME failed REASON".

An example is a block of Python that leaves `model` and `X` behind and writes NAME.onnx, and the
block of SQL after it.  What it reads stands in the table's columns; rows that it drops are
missing from expected.csv.
"""
import contextlib
import csv
import io
import os
import pathlib
import re
import shutil
import sys
import traceback

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "models.md"
ROWS = 400


def customers(path):
    """A table of numbers, some of them missing, and text, with something to predict."""
    import numpy as np

    rng = np.random.default_rng(1)
    age = rng.integers(18, 90, ROWS).astype(float)
    income = np.round(rng.uniform(1e3, 9e3, ROWS), 2)
    visits = rng.integers(0, 12, ROWS)
    city = rng.choice(["Jena", "Köln", "Ulm"], ROWS)
    plan = rng.choice(["basic", "plus"], ROWS)
    score = age / 20 + income / 4000 - visits / 3 + 2 * (city == "Ulm") + rng.normal(0, 0.5, ROWS)
    churned = np.where(score > np.median(score), "yes", "no")
    segment = np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))
    spent = np.round(1000 + score * 100 + rng.normal(0, 10, ROWS), 2)
    age[rng.random(ROWS) < 0.15] = np.nan
    income[rng.random(ROWS) < 0.15] = np.nan
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "age", "income", "visits", "city", "plan", "churned", "segment", "spent"])
        for i in range(ROWS):
            numbers = ["" if np.isnan(value) else repr(float(value)) for value in (age[i], income[i])]
            writer.writerow([i + 1, *numbers, visits[i], city[i], plan[i], churned[i], segment[i], spent[i]])


def examples():
    """(name, Python, SQL) of each, in order."""
    text = DOCUMENT.read_text()
    pattern = r"```python\n(.*?)```\n\n```sql\n(.*?)```"
    for python, sql in re.findall(pattern, text, re.DOTALL):
        yield re.search(r"'(\w+)\.onnx'", python).group(1), python, sql


def predictions(names):
    """The header and the rows, without ids, of what the library says."""
    import numpy as np

    model, X = names["model"], names["X"]
    if hasattr(model, "predict_proba"):
        return ["label", *map(str, model.classes_)], [
            [label, *map(float, row)] for label, row in zip(model.predict(X), model.predict_proba(X))]
    if "torch" in names:
        with names["torch"].no_grad():
            shares = model(X).numpy()
        return ["label", "no", "yes"], [[["no", "yes"][row.argmax()], *map(float, row)] for row in shares]
    return ["number"], [[float(value)] for value in np.ravel(model.predict(X))]


def run(folder, name, python, sql):
    """Runs one example in a folder of its own, and says how it went."""
    names = {"__name__": name}
    (folder / name).mkdir()
    os.chdir(folder / name)
    os.symlink("../customers.csv", "customers.csv")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(compile(python, f"{DOCUMENT.name}: {name}", "exec"), names)
        except ModuleNotFoundError as error:
            return f"skip {error.name}"
    header, rows = predictions(names)
    if header[0] == "label" and '"classes": ["no", "yes"]' in sql:      # the words for the library's numbers
        words = dict(zip(header[1:], ["no", "yes"]))
        header[1:] = ["no", "yes"]
        rows = [[words.get(str(row[0]), row[0]), *row[1:]] for row in rows]
    with open("expected.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *header])
        writer.writerows([int(i), *row] for i, row in zip(names["table"]["id"], rows))
    pathlib.Path("statements.sql").write_text(sql.replace("/srv/models", str(folder / name)))
    return f"ok {header[0]}"


def main(folder):
    folder = pathlib.Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    customers(folder / "customers.csv")
    with open(folder / "examples", "w") as report:
        for name, python, sql in examples():
            try:
                outcome = run(folder, name, python, sql)
            except Exception as error:
                traceback.print_exc()
                outcome = "failed " + " ".join(str(error).split())[:200]
            print(name, outcome, file=report, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
