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
from skl2onnx.common.data_types import FloatTensorType
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
    for make in breast_cancer, diabetes, digits, wine:
        (HERE / make.__name__).mkdir(exist_ok=True)
        make()
