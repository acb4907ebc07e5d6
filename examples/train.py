#!/usr/bin/env python3
"""Make the tables and models of examples/ from the tables that scikit-learn ships.

    .venv/bin/python examples/train.py          # rewrites examples/*/{*.csv,model.onnx,expected.csv}

Seeded, with the versions of test/requirements.txt, so that anybody gets the same models again.
Each model is trained on the very numbers of its CSV file.  expected.csv holds what onnxruntime,
which shares no code with infer, says about each row at batch 1: the tests compare with it.

Sources of the tables (each also at https://archive.ics.uci.edu/):
    breast_cancer   W. N. Street, W. H. Wolberg, O. L. Mangasarian: Nuclear feature extraction for
                    breast tumor diagnosis. SPIE 1905, 1993.
    diabetes        B. Efron, T. Hastie, I. Johnstone, R. Tibshirani: Least angle regression.
                    Annals of Statistics 32, 2004.  Scaled as scikit-learn does.
    digits          E. Alpaydin, C. Kaynak: Optical recognition of handwritten digits. UCI, 1998.
    iris            R. A. Fisher: The use of multiple measurements in taxonomic problems.
                    Annals of Eugenics 7, 1936.
    progression     The patients of diabetes again, unscaled.
    wine            S. Aeberhard, M. Forina: Wine. UCI, 1991.
"""

import csv
import json
import pathlib
import warnings

import numpy as np
import onnx
import onnxruntime
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

HERE = pathlib.Path(__file__).resolve().parent
OPSETS = {"": 17, "ai.onnx.ml": 3}


def column(name):
    """A column name that SQL need not quote."""
    return name.replace(" ", "_").replace("/", "_").replace("(", "").replace(")", "").lower()


def number(value):
    return format(float(value), ".8g")


def write_csv(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def rounded(table):
    """The numbers as the CSV file shows them."""
    return np.array([[float(number(value)) for value in row] for row in table])


def save(folder, model, properties):
    """Write the model with the names of its features among its properties."""
    del model.metadata_props[:]
    for key, value in properties.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    model.graph.name = folder.name      # skl2onnx takes a random one
    opsets = sorted({(opset.domain, opset.version) for opset in model.opset_import})
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(*opset) for opset in opsets)
    model.doc_string = ""
    model.producer_version = ""
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")


def ask(folder, feeds):
    """What onnxruntime says to each row alone: a list of outputs per row."""
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def write_expected_classes(folder, answers):
    rows = []
    for index, (label, probabilities) in enumerate(answers, 1):
        probability = probabilities[0]
        rows.append([index, label[0], json.dumps({str(k): float(v) for k, v in probability.items()})])
    write_csv(folder / "expected.csv", ["id", "label", "probabilities"], rows)


def breast_cancer():
    """Logistic regression on scaled features; labels are words."""
    folder = HERE / "breast_cancer"
    data = load_breast_cancer()
    x = rounded(data.data)
    labels = data.target_names[data.target]
    names = [column(name) for name in data.feature_names]
    write_csv(folder / "tumours.csv", ["id", *names, "diagnosis"],
              [[i, *map(number, row), label] for i, (row, label) in enumerate(zip(x, labels), 1)])

    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, random_state=1))
    pipeline.fit(x[::2], labels[::2])
    model = to_onnx(pipeline, initial_types=[("features", FloatTensorType([None, 30]))],
                    target_opset=OPSETS)
    save(folder, model, {})
    write_expected_classes(folder, ask(folder, [{"features": row[None].astype(np.float32)} for row in x]))
    print("breast_cancer: accuracy on the other half", pipeline.score(x[1::2], labels[1::2]))


def diabetes():
    """Linear regression; the names of its features are a property of the model."""
    folder = HERE / "diabetes"
    data = load_diabetes()
    x = rounded(data.data)
    names = list(data.feature_names)
    write_csv(folder / "patients.csv", ["id", *names, "progression"],
              [[i, *map(number, row), number(y)] for i, (row, y) in enumerate(zip(x, data.target), 1)])

    regression = LinearRegression().fit(x[::2], data.target[::2])
    model = to_onnx(regression, initial_types=[("features", FloatTensorType([None, 10]))],
                    target_opset=OPSETS)
    save(folder, model, {"feature_names": json.dumps(names)})
    answers = ask(folder, [{"features": row[None].astype(np.float32)} for row in x])
    write_csv(folder / "expected.csv", ["id", "prediction"],
              [[i, repr(float(answer[0].item()))] for i, answer in enumerate(answers, 1)])
    print("diabetes: R2 on the other half", regression.score(x[1::2], data.target[1::2]))


def digits():
    """A multi-layer perceptron on 8 x 8 images; labels are numbers, the input is one array."""
    folder = HERE / "digits"
    data = load_digits()
    x = data.data
    write_csv(folder / "digits.csv", ["id", "pixels", "digit"],
              [[i, "{" + ",".join(str(int(p)) for p in row) + "}", int(y)]
               for i, (row, y) in enumerate(zip(x, data.target), 1)])

    mlp = make_pipeline(StandardScaler(), MLPClassifier((64, 32), random_state=1, max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mlp.fit(x[::2], data.target[::2])
    model = to_onnx(mlp, initial_types=[("pixels", FloatTensorType([None, 64]))], target_opset=OPSETS)
    save(folder, model, {})
    write_expected_classes(folder, ask(folder, [{"pixels": row[None].astype(np.float32)} for row in x]))
    print("digits: accuracy on the other half", mlp.score(x[1::2], data.target[1::2]))


def iris():
    """A random forest of 30 trees; labels are words."""
    folder = HERE / "iris"
    data = load_iris()
    x = rounded(data.data)
    labels = data.target_names[data.target]
    names = [column(name.replace(" (cm)", "")) for name in data.feature_names]
    write_csv(folder / "flowers.csv", ["id", *names, "species"],
              [[i, *map(number, row), label] for i, (row, label) in enumerate(zip(x, labels), 1)])

    forest = RandomForestClassifier(30, max_depth=5, random_state=1).fit(x[::2], labels[::2])
    model = to_onnx(forest, initial_types=[("features", FloatTensorType([None, len(names)]))],
                    target_opset=OPSETS)
    save(folder, model, {"feature_names": json.dumps(names)})
    write_expected_classes(folder, ask(folder, [{"features": row[None].astype(np.float32)} for row in x]))
    print("iris: accuracy on the other half", forest.score(x[1::2], labels[1::2]))


def progression():
    """Gradient-boosted trees over columns of text and of numbers, some of them missing.

    The sex is the table's own code, 1 or 2, as text.  The table's body mass index and blood
    pressure are numbers: here they are words, by the usual bounds of overweight and by thirds.
    The class is whether the disease went on faster than for two patients of three.
    """
    folder = HERE / "progression"
    data = load_diabetes(scaled=False)
    table = dict(zip(data.feature_names, rounded(data.data).T))
    fast = data.target > np.quantile(data.target, 2 / 3)
    labels = np.where(fast, "yes", "no")

    def words(values, bounds, names):
        return np.array(names)[np.searchsorted(bounds, values, side="right")]

    texts = {"sex": table["sex"].astype(int).astype(str),
             "weight": words(table["bmi"], [18.5, 25, 30], ["under", "normal", "over", "obese"]),
             "pressure": words(table["bp"], np.quantile(table["bp"], [1 / 3, 2 / 3]), ["low", "medium", "high"])}
    numbers = {name: table[name] for name in ["age", "s1", "s2", "s3", "s4", "s5", "s6"]}

    # As for wine: every 20th number is lost.
    x = np.column_stack(list(numbers.values()))
    missing = np.random.default_rng(1).permutation(x.size)[: x.size // 20]
    x.ravel()[missing] = np.nan
    rows = [[*words_of_row, *numbers_of_row]
            for words_of_row, numbers_of_row in zip(zip(*texts.values()), x)]
    write_csv(folder / "cohort.csv", ["id", *texts, *numbers, "fast"],
              [[i, *row[:3], *("" if np.isnan(value) else number(value) for value in row[3:]), label]
               for i, (row, label) in enumerate(zip(rows, labels), 1)])

    rows = np.array(rows, dtype=object)
    columns = ColumnTransformer([("words", OneHotEncoder(handle_unknown="ignore"), [0, 1, 2]),
                                 ("numbers", SimpleImputer(strategy="median"), list(range(3, 10)))])
    pipeline = make_pipeline(columns, GradientBoostingClassifier(n_estimators=60, max_depth=3, random_state=1))
    pipeline.fit(rows[::2], labels[::2])
    types = [(name, StringTensorType([None, 1])) for name in texts]
    types += [(name, FloatTensorType([None, 1])) for name in numbers]
    model = to_onnx(pipeline, initial_types=types, target_opset=OPSETS)
    save(folder, model, {})
    feeds = [{name: np.array([[value]], dtype=object if name in texts else np.float32)
              for name, value in zip([*texts, *numbers], row)} for row in rows]
    write_expected_classes(folder, ask(folder, feeds))
    print("progression: accuracy on the other half", pipeline.score(rows[1::2], labels[1::2]))


def wine():
    """Columns, imputer, scaler and logistic regression; one named input per column, values may be missing."""
    folder = HERE / "wine"
    data = load_wine()
    x = rounded(data.data)
    labels = np.array([name.replace("class_", "cultivar_") for name in data.target_names])[data.target]
    names = [column(name) for name in data.feature_names]
    names = ["od280_od315" if name.startswith("od280") else name for name in names]

    # A laboratory that lost some measurements: every 20th value of the file is empty.
    missing = np.random.default_rng(1).permutation(x.size)[: x.size // 20]
    x.ravel()[missing] = np.nan
    write_csv(folder / "wines.csv", ["id", *names, "cultivar"],
              [[i, *("" if np.isnan(value) else number(value) for value in row), label]
               for i, (row, label) in enumerate(zip(x, labels), 1)])

    columns = ColumnTransformer([("impute", SimpleImputer(strategy="mean"), list(range(len(names))))])
    pipeline = make_pipeline(columns, StandardScaler(),
                             LogisticRegression(max_iter=1000, random_state=1))
    pipeline.fit(x[::2], labels[::2])
    model = to_onnx(pipeline, initial_types=[(name, FloatTensorType([None, 1])) for name in names],
                    target_opset=OPSETS)
    save(folder, model, {})
    feeds = [{name: np.array([[value]], np.float32) for name, value in zip(names, row)} for row in x]
    write_expected_classes(folder, ask(folder, feeds))
    print("wine: accuracy on the other half", pipeline.score(x[1::2], labels[1::2]))


if __name__ == "__main__":
    for make in breast_cancer, diabetes, digits, iris, progression, wine:
        (HERE / make.__name__).mkdir(exist_ok=True)
        make()
