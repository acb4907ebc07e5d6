#!/usr/bin/env python3
"""Whole models as users' tools export them, with onnxruntime's answers.

    exports.py FOLDER       FOLDER/<name>/model.onnx, rows, classes, test_data_set_0/*.pb

scikit-learn models go through skl2onnx, XGBoost's and LightGBM's through onnxmltools; graphs in the manner of PyTorch's and Keras's exporters
are built by hand.  The file "rows" marks a case whose first dimension is the batch: the runner
gives its rows to the engine as rows.  "classes" holds a classifier's labels, one a line.
"tolerance" holds rtol and atol.
"""
import os
import shutil
import sys
import warnings

import lightgbm
import numpy as np
import onnx
import onnxruntime as ort
import xgboost
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common import data_types as onnxml_types
from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm as convert_lightgbm_step
from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost as convert_xgboost_step
from skl2onnx import convert_sklearn, update_registered_converter
from skl2onnx.common.data_types import (BooleanTensorType, DoubleTensorType, FloatTensorType, Int64TensorType,
                                        StringTensorType)
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes, calculate_linear_regressor_output_shapes
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (AdaBoostClassifier, BaggingClassifier, ExtraTreesClassifier, ExtraTreesRegressor,
                              GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor,
                              StackingClassifier, StackingRegressor, VotingClassifier, VotingRegressor)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (ARDRegression, BayesianRidge, ElasticNet, GammaRegressor, HuberRegressor, Lars, Lasso,
                                  LinearRegression, LogisticRegression, LogisticRegressionCV, OrthogonalMatchingPursuit,
                                  Perceptron, PoissonRegressor, QuantileRegressor, Ridge, RidgeClassifier, RidgeCV,
                                  SGDClassifier, SGDRegressor, TheilSenRegressor, TweedieRegressor)
from sklearn.mixture import GaussianMixture
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (Binarizer, FunctionTransformer, MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder,
                                   OrdinalEncoder, PolynomialFeatures, PowerTransformer, QuantileTransformer, RobustScaler,
                                   StandardScaler)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

warnings.filterwarnings('ignore')
ROWS = 24
F32_TOLERANCE = '1e-6 1e-6'
F64_TOLERANCE = '1e-12 1e-12'
folder = None
rng = np.random.default_rng(11)


def tensor_of(array, name):
    if array.dtype.kind in 'OUS':
        return helper.make_tensor(name, T.STRING, array.shape, [str(s) for s in array.ravel()])
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def write(name, model, feed, tolerance=F32_TOLERANCE, classes=None):
    """feed: name → array whose first dimension is the rows."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
    rows = len(next(iter(feed.values())))
    answers = []
    for output, value in zip(session.get_outputs(), session.run(None, feed)):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = np.array([list(row.values()) for row in value], np.float32)
        answers.append((output.name, np.asarray(value)))
    data = os.path.join(folder, name, 'test_data_set_0')
    os.makedirs(data)
    with open(os.path.join(folder, name, 'model.onnx'), 'wb') as out:
        out.write(model.SerializeToString())
    for kind, tensors in (('input', [(i.name, feed[i.name]) for i in session.get_inputs()]), ('output', answers)):
        for k, (tensor, array) in enumerate(tensors):
            with open(os.path.join(data, f'{kind}_{k}.pb'), 'wb') as out:
                out.write(tensor_of(array, tensor).SerializeToString())
    for file, text in (('rows', f'{rows}\n'), ('tolerance', tolerance + '\n'),
                       ('classes', None if classes is None else ''.join(f'{c}\n' for c in classes))):
        if text is not None:
            with open(os.path.join(folder, name, file), 'w') as out:
                out.write(text)


# ---- scikit-learn ----

def sk(name, model, x, y=None, double=False, zipmap=None, opset=None, kind=None, tolerance=None, fit=True, named=True, **options):
    if fit:
        model.fit(x, y)
    dtype = np.float64 if double else np.float32
    kind = kind or (DoubleTensorType if double else FloatTensorType)
    if kind is Int64TensorType:
        dtype = np.int64
    opts = dict(options)
    if zipmap is not None:
        opts['zipmap'] = zipmap
    extra = {id(model): opts} if opts else None
    onx = convert_sklearn(model, initial_types=[('X', kind([None, x.shape[1]]))], options=extra, target_opset=opset)
    # each class in a column of its own, or scores of pairs of classes: there is no one output of scores
    classes = None if zipmap == 'columns' or not named else getattr(model, 'classes_', None)
    write('sk_' + name, onx, {'X': np.ascontiguousarray(x[:ROWS * 4:4]).astype(dtype)},
          tolerance or (F64_TOLERANCE if double else F32_TOLERANCE), classes)


def sklearn_models():
    cancer, iris, wine, diabetes, digits = (f() for f in (load_breast_cancer, load_iris, load_wine, load_diabetes, load_digits))
    names = np.array(['malignant', 'benign'])[cancer.target]
    species = iris.target_names[iris.target]
    shuffled = rng.permutation(len(iris.data))
    ix, iy, iname = iris.data[shuffled], iris.target[shuffled], species[shuffled]
    wshuffled = rng.permutation(len(wine.data))
    wx, wy = wine.data[wshuffled], wine.target[wshuffled]

    def scaled(model):
        return make_pipeline(StandardScaler(), model)

    for double in (False, True):
        suffix = '_f64' if double else ''
        sk('logistic_binary_int' + suffix, scaled(LogisticRegression()), cancer.data, cancer.target, double,
           zipmap=False if double else None)
        sk('logistic_multi_string_nozipmap' + suffix, scaled(LogisticRegression()), ix, iname, double, zipmap=False)
        sk('linear_regression' + suffix, LinearRegression(), diabetes.data, diabetes.target, double)
        sk('mlp_classifier' + suffix, scaled(MLPClassifier((16,), random_state=0, max_iter=60)), wx, wy, double, zipmap=False)
        sk('mlp_regressor' + suffix, scaled(MLPRegressor(hidden_layer_sizes=(16, 8), random_state=0, max_iter=60)), diabetes.data, diabetes.target, double)
        for label, model in (('standard', StandardScaler()), ('minmax', MinMaxScaler()), ('maxabs', MaxAbsScaler()),
                             ('robust', RobustScaler()), ('normalizer_l2', Normalizer()), ('normalizer_l1', Normalizer('l1')),
                             ('normalizer_max', Normalizer('max')), ('minmax_clip', MinMaxScaler(clip=True)), ('pca', PCA(4))):
            if double and label == 'normalizer_max':
                continue    # skl2onnx has no such conversion
            sk(label + suffix, model, wx, None, double, tolerance=None if label != 'pca' else ('1e-5 1e-4' if not double else '1e-9 1e-9'))
    sk('logistic_binary_string', scaled(LogisticRegression()), cancer.data, names)
    sk('logistic_binary_nozipmap', scaled(LogisticRegression()), cancer.data, names, zipmap=False)
    sk('logistic_binary_columns', scaled(LogisticRegression()), cancer.data, cancer.target, zipmap='columns')
    sk('logistic_binary_raw', LogisticRegression(max_iter=200), ix[iy < 2], iy[iy < 2], zipmap=False, raw_scores=True)
    sk('logistic_multi_int', scaled(LogisticRegression()), ix, iy)
    sk('logistic_multi_labels', scaled(LogisticRegression()), ix, iy * 10 - 5)
    sk('logistic_ovr', OneVsRestClassifier(LogisticRegression()), ix, iy, zipmap=False)
    sk('logistic_digits', LogisticRegression(max_iter=50), digits.data, digits.target, zipmap=False)
    sk('logistic_opset9', scaled(LogisticRegression()), ix, iname, opset={'': 9, 'ai.onnx.ml': 1})
    sk('logistic_opset12', scaled(LogisticRegression()), ix, iname, opset={'': 12, 'ai.onnx.ml': 1})
    sk('sgd_log', scaled(SGDClassifier(loss='log_loss', random_state=0)), ix, iname, zipmap=False)
    sk('sgd_log_binary', scaled(SGDClassifier(loss='log_loss', random_state=0)), cancer.data, names)
    sk('sgd_hinge', scaled(SGDClassifier(random_state=0)), ix, iy, zipmap=False, raw_scores=True)
    sk('sgd_huber', scaled(SGDClassifier(loss='modified_huber', random_state=0)), ix, iy, zipmap=False)
    sk('perceptron', scaled(Perceptron(random_state=0)), ix, iy, zipmap=False, raw_scores=True)
    sk('ridge_classifier', scaled(RidgeClassifier()), ix, iname, zipmap=False, raw_scores=True)
    sk('linear_svc', LinearSVC(random_state=0), ix, iy)
    sk('lda', LinearDiscriminantAnalysis(), ix, iname, zipmap=False)
    for label, model in (('ridge', Ridge()), ('lasso', Lasso(0.1)), ('elastic', ElasticNet(0.1)), ('sgd_regressor', SGDRegressor(random_state=0)),
                         ('linear_svr', LinearSVR(random_state=0))):
        sk(label, model, diabetes.data, diabetes.target)
    sk('regression_two', LinearRegression(), diabetes.data, np.stack([diabetes.target, diabetes.target ** 0.5], 1))
    sk('regression_int64', LinearRegression(), digits.data, digits.target * 1.0, kind=Int64TensorType)
    sk('mlp_binary', scaled(MLPClassifier((8,), random_state=0, max_iter=40)), cancer.data, names)
    sk('mlp_tanh', scaled(MLPClassifier((8, 8), 'tanh', random_state=0, max_iter=40)), ix, iname)
    sk('mlp_logistic', scaled(MLPClassifier((8,), 'logistic', random_state=0, max_iter=40)), ix, iname, zipmap=False)
    sk('mlp_identity', scaled(MLPRegressor(hidden_layer_sizes=(8,), activation='identity', random_state=0, max_iter=40)), diabetes.data, diabetes.target)
    sk('mlp_digits', MLPClassifier((32,), random_state=0, max_iter=20), digits.data, digits.target, zipmap=False, tolerance='1e-5 1e-6')
    sk('binarizer', Binarizer(threshold=1.5), wx)
    sk('polynomial', make_pipeline(PolynomialFeatures(2), LinearRegression()), ix, iy * 1.0, tolerance='1e-4 1e-5')
    holes = wx.copy()
    holes[::5, 2] = np.nan
    holes[1::4, 7] = np.nan
    for strategy in ('mean', 'median', 'most_frequent', 'constant'):
        sk('imputer_' + strategy, SimpleImputer(strategy=strategy), holes)
    sk('imputer_pipeline', make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()), holes, wy)
    columns(holes, wy)
    further(ix, iy, diabetes)
    machines(ix, iy, iname, diabetes)


def further(x, y, table):
    """Other estimators that are exported to the same operators."""
    classifiers = {
        'gaussian_nb': GaussianNB(), 'multinomial_nb': MultinomialNB(), 'bernoulli_nb': BernoulliNB(),
        'complement_nb': ComplementNB(), 'qda': QuadraticDiscriminantAnalysis(), 'kmeans': KMeans(3, random_state=0),
        'mixture': GaussianMixture(2, random_state=0), 'stacking': StackingClassifier([('a', LogisticRegression())]),
        'logistic_cv': LogisticRegressionCV(cv=2), 'calibrated': CalibratedClassifierCV(LinearSVC(random_state=0)),
        'ovr_svc': OneVsRestClassifier(LinearSVC(random_state=0)), 'ovo': OneVsOneClassifier(LogisticRegression()),
    }
    steps = {
        'select': SelectKBest(k=2), 'variance': VarianceThreshold(), 'power': PowerTransformer(), 'function': FunctionTransformer(),
        'pca': PCA(2), 'svd': TruncatedSVD(2, random_state=0), 'quantile': QuantileTransformer(n_quantiles=20),
        'union': FeatureUnion([('a', StandardScaler()), ('b', PCA(2))]),
        'polynomial': make_pipeline(PolynomialFeatures(2), StandardScaler()),
    }
    for name, step in steps.items():
        classifiers[name + '_logistic'] = make_pipeline(step, LogisticRegression())
    for name, model in classifiers.items():
        # distances of KMeans are differences of large squares
        sk(name, model, x, y, tolerance='1e-3 1e-4' if name == 'kmeans' else '1e-5 1e-5')
    regressors = {
        'gamma': GammaRegressor(), 'poisson': PoissonRegressor(), 'tweedie': TweedieRegressor(), 'huber': HuberRegressor(),
        'bayesian_ridge': BayesianRidge(), 'ard': ARDRegression(), 'theil_sen': TheilSenRegressor(random_state=0), 'ridge_cv': RidgeCV(),
        'lars': Lars(), 'matching_pursuit': OrthogonalMatchingPursuit(), 'quantile': QuantileRegressor(),
        'voting': VotingRegressor([('a', Ridge())]), 'stacking': StackingRegressor([('a', Ridge())]),
    }
    for name, model in regressors.items():
        sk('regressor_' + name, model, table.data, table.target, tolerance='1e-5 1e-5')
    sk('regressor_multi_output', MultiOutputRegressor(Ridge()), table.data, np.stack([table.target, -table.target], 1))


def machines(x, y, name, table):
    """Support vector machines."""
    two = y < 2
    for kernel in ('linear', 'poly', 'rbf', 'sigmoid'):
        scale = {'poly': 0.1, 'sigmoid': 0.02}.get(kernel, 'scale')
        sk('svc_' + kernel, SVC(kernel=kernel, gamma=scale, probability=True, random_state=0), x, name, zipmap=False, tolerance='1e-5 1e-5')
        sk('svc_two_' + kernel, SVC(kernel=kernel, gamma=scale, probability=True, random_state=0), x[two], y[two], tolerance='1e-5 1e-5')
        sk('svr_' + kernel, SVR(kernel=kernel, gamma=scale), table.data, table.target, tolerance='1e-3 1e-4')
    sk('svc_scores', SVC(), x, y, zipmap=False, raw_scores=True, tolerance='1e-5 1e-5', named=False)
    sk('svc_labels', SVC(), x, name, zipmap=False, tolerance='1e-5 1e-5', named=False)
    sk('nu_svc', make_pipeline(StandardScaler(), NuSVC(probability=True, random_state=0)), x, name, tolerance='1e-5 1e-5')
    sk('nu_svr', make_pipeline(StandardScaler(), NuSVR()), table.data, table.target, tolerance='1e-3 1e-4')
    sk('one_class_svm', OneClassSVM(), x, tolerance='1e-4 1e-4')


def columns(x, y):
    """Several named inputs, of several types."""
    city = np.array(['bern', 'oslo', 'rome'], object)[rng.integers(0, 3, len(x))]
    rooms = rng.integers(1, 9, len(x))
    table = np.empty((len(x), 4), object)
    table[:, 0], table[:, 1], table[:, 2], table[:, 3] = x[:, 0], x[:, 7], rooms, city
    feed = {'age': x[:ROWS, 0:1].astype(np.float32), 'income': x[:ROWS, 7:8].astype(np.float32),
            'rooms': rooms[:ROWS, None], 'city': city[:ROWS, None]}
    kinds = [('age', FloatTensorType([None, 1])), ('income', FloatTensorType([None, 1])),
             ('rooms', Int64TensorType([None, 1])), ('city', StringTensorType([None, 1]))]
    numeric = ('numeric', make_pipeline(SimpleImputer(), StandardScaler()), [0, 1])
    counted = ('counted', MinMaxScaler(), [2])

    def export(name, transformers, columns, target=y):
        model = make_pipeline(ColumnTransformer(transformers), LogisticRegression())
        model.fit(table, target)
        onx = convert_sklearn(model, initial_types=kinds)
        used = {i.name for i in onx.graph.input}
        write('sk_' + name, onx, {k: v for k, v in feed.items() if k in used}, classes=model.classes_)
    export('columns_numeric', [numeric, counted], [0, 1, 2])
    export('columns_onehot', [numeric, counted, ('city', OneHotEncoder(handle_unknown='ignore'), [3])], [0, 1, 2, 3])
    export('columns_ordinal', [numeric, ('city', OrdinalEncoder(), [3])], [0, 1, 3])


# ---- trees ----

def trees():
    cancer, wine, diabetes, digits = (f() for f in (load_breast_cancer, load_wine, load_diabetes, load_digits))
    names = np.array(['malignant', 'benign'])[cancer.target]
    order = rng.permutation(len(wine.data))
    wx, wy = wine.data[order].astype(np.float32), wine.target[order]
    cx, dx = cancer.data.astype(np.float32), diabetes.data.astype(np.float32)
    kinds = ['red', 'rose', 'white']
    holes = wx.copy()
    holes[rng.random(holes.shape) < 0.15] = np.nan
    two = np.stack([diabetes.target, np.sqrt(diabetes.target)], 1)
    for name, kind in (('decision_tree', DecisionTreeClassifier), ('extra_tree', ExtraTreeClassifier),
                       ('random_forest', RandomForestClassifier), ('extra_trees', ExtraTreesClassifier),
                       ('gradient_boosting', GradientBoostingClassifier)):
        more = {} if 'tree' in name and 'trees' not in name else {'n_estimators': 20}
        make = lambda: kind(max_depth=6, random_state=0, **more)
        sk('tree_' + name + '_two_ints', make(), cx, cancer.target, zipmap=False)
        sk('tree_' + name + '_two_strings', make(), cx, names)
        sk('tree_' + name + '_three', make(), wx, np.array(kinds)[wy], zipmap=False)
        sk('tree_' + name + '_ten', make(), digits.data, digits.target, zipmap=False)
        if name == 'random_forest':     # onnxruntime refuses the others as they are exported
            sk('tree_' + name + '_f64', make(), wx, wy, True, zipmap=False, tolerance='1e-6 1e-6')
    sk('tree_forest_missing', RandomForestClassifier(20, random_state=0), holes, wy, zipmap=False)
    sk('tree_bagging', BaggingClassifier(n_estimators=5, random_state=0), wx, wy, zipmap=False)
    sk('tree_ada_boost', AdaBoostClassifier(n_estimators=5, random_state=0), wx, wy, zipmap=False)
    sk('tree_voting', VotingClassifier([('a', RandomForestClassifier(5, random_state=0)), ('b', LogisticRegression())], voting='soft',
                                       flatten_transform=False), wx, wy, zipmap=False)
    sk('tree_pipeline', make_pipeline(SimpleImputer(), StandardScaler(), GradientBoostingClassifier(n_estimators=10)), holes, wy, zipmap=False)
    for name, kind in (('decision_tree', DecisionTreeRegressor), ('extra_tree', ExtraTreeRegressor),
                       ('random_forest', RandomForestRegressor), ('extra_trees', ExtraTreesRegressor),
                       ('gradient_boosting', GradientBoostingRegressor)):
        more = {} if 'tree' in name and 'trees' not in name else {'n_estimators': 20}
        sk('tree_regressor_' + name, kind(max_depth=6, random_state=0, **more), dx, diabetes.target)
        if 'boosting' not in name:
            sk('tree_regressor_' + name + '_two', kind(max_depth=6, random_state=0, **more), dx, two)

    sk('tree_stacking_words', StackingClassifier([('a', LogisticRegression()), ('b', DecisionTreeClassifier(max_depth=3))]), cx, names, zipmap=False)
    boosted_pipelines(holes, wy, np.array(kinds)[wy])

    def ml(name, convert, model, x, classes=None, **options):
        onx = convert(model, initial_types=[('x', onnxml_types.FloatTensorType([None, x.shape[1]]))], **options)
        write(name, onx, {'x': np.ascontiguousarray(x[:ROWS * 4:4])}, classes=classes)
    few = {'n_estimators': 20, 'max_depth': 6, 'n_jobs': 1}
    for name, x in (('', wx), ('_missing', holes)):
        ml('xgboost_three' + name, convert_xgboost, xgboost.XGBClassifier(**few).fit(x, wy), x, [0, 1, 2])
        ml('lightgbm_three' + name, convert_lightgbm, lightgbm.LGBMClassifier(verbose=-1, **few).fit(x, wy), x, [0, 1, 2])
        ml('xgboost_regressor' + name, convert_xgboost, xgboost.XGBRegressor(**few).fit(x, wy), x)
        ml('lightgbm_regressor' + name, convert_lightgbm, lightgbm.LGBMRegressor(verbose=-1, **few).fit(x, wy), x)
    ml('lightgbm_words_matrix', convert_lightgbm, lightgbm.LGBMClassifier(verbose=-1, **few).fit(cx, names), cx, ['benign', 'malignant'],
       zipmap=False)
    ml('xgboost_two', convert_xgboost, xgboost.XGBClassifier(**few).fit(cx, cancer.target), cx, [0, 1])
    ml('xgboost_forest', convert_xgboost, xgboost.XGBRFClassifier(n_jobs=1).fit(cx, cancer.target), cx, [0, 1])
    ml('xgboost_poisson', convert_xgboost, xgboost.XGBRegressor(objective='count:poisson', **few).fit(wx, wy), wx)
    ml('lightgbm_two', convert_lightgbm, lightgbm.LGBMClassifier(verbose=-1, **few).fit(cx, cancer.target), cx, [0, 1])
    ml('lightgbm_forest', convert_lightgbm, lightgbm.LGBMClassifier(boosting_type='rf', bagging_freq=1, bagging_fraction=0.7, verbose=-1,
                                                                    **few).fit(cx, cancer.target), cx, [0, 1])
    coded = wx.copy()
    coded[:, 0] = rng.integers(0, 6, len(coded))
    ml('lightgbm_categories', convert_lightgbm, lightgbm.LGBMClassifier(verbose=-1, min_data_per_group=1, cat_smooth=0, **few).fit(
        coded, (coded[:, 0] % 2).astype(int), categorical_feature=[0]), coded, [0, 1])


def boosted_pipelines(x, numbers, words):
    """XGBoost and LightGBM behind a step of scikit-learn's that keeps missing values missing."""
    choices = {'nocl': [True, False], 'zipmap': [True, False, 'columns']}
    for kind, alias, shapes, convert, more in (
            (xgboost.XGBClassifier, 'XGBoostXGBClassifier', calculate_linear_classifier_output_shapes, convert_xgboost_step, choices),
            (xgboost.XGBRegressor, 'XGBoostXGBRegressor', calculate_linear_regressor_output_shapes, convert_xgboost_step, {}),
            (lightgbm.LGBMClassifier, 'LightGbmLGBMClassifier', calculate_linear_classifier_output_shapes, convert_lightgbm_step, choices),
            (lightgbm.LGBMRegressor, 'LightGbmLGBMRegressor', calculate_linear_regressor_output_shapes, convert_lightgbm_step, {'split': None})):
        update_registered_converter(kind, alias, shapes, convert, options=more)
        quiet = {'verbose': -1} if kind.__module__.startswith('lightgbm') else {'n_jobs': 1}
        model = make_pipeline(StandardScaler(), kind(n_estimators=20, **quiet))
        is_classifier = hasattr(kind, 'predict_proba')
        target = words if kind is lightgbm.LGBMClassifier else numbers
        model.fit(x, target)
        onx = convert_sklearn(model, initial_types=[('X', FloatTensorType([None, x.shape[1]]))], target_opset={'': 18, 'ai.onnx.ml': 3},
                              options={id(model[-1]): {'zipmap': False}} if is_classifier else None)
        write('pipeline_' + kind.__name__.lower(), onx, {'X': np.ascontiguousarray(x[:ROWS * 4:4])},
              classes=model.classes_ if is_classifier else None)


# ---- graphs in the manner of PyTorch and Keras ----

def f32(*shape, scale=0.5):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def graph(name, nodes, inputs, outputs, constants, feed, opset=17, ir=8, tolerance='1e-5 1e-6', metadata=None, values=()):
    inits = [numpy_helper.from_array(np.ascontiguousarray(v).reshape(np.shape(v)), k) for k, v in constants.items()]
    g = helper.make_graph(nodes, 'main_graph', inputs, outputs, inits, value_info=list(values))
    model = helper.make_model(g, opset_imports=[helper.make_opsetid('', opset)], ir_version=ir, producer_name='exports')
    if metadata:
        helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    write('net_' + name, model, feed, tolerance)


def info(name, shape, kind=T.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


N = helper.make_node


def networks():
    x = f32(ROWS, 6, scale=1)
    dense = {'w1': f32(16, 6), 'b1': f32(16), 'w2': f32(3, 16), 'b2': f32(3)}
    graph('torch_mlp', [N('Gemm', ['x', 'w1', 'b1'], ['a'], transB=1), N('Relu', ['a'], ['b']),
                        N('Gemm', ['b', 'w2', 'b2'], ['y'], transB=1)],
          [info('x', ['batch', 6])], [info('y', ['batch', 3])], dense, {'x': x})
    graph('torch_mlp_fixed1', [N('Gemm', ['x', 'w1', 'b1'], ['a'], transB=1), N('Relu', ['a'], ['b']),
                               N('Gemm', ['b', 'w2', 'b2'], ['y'], transB=1)],
          [info('x', [1, 6])], [info('y', [1, 3])], dense, {'x': x[:1]})
    graph('torch_mlp_softmax', [N('Gemm', ['x', 'w1', 'b1'], ['a'], transB=1), N('Gelu', ['a'], ['b']),
                                N('Gemm', ['b', 'w2', 'b2'], ['c'], transB=1), N('Softmax', ['c'], ['y'], axis=1)],
          [info('x', ['batch', 6])], [info('y', ['batch', 3])], dense, {'x': x}, opset=20, ir=9)
    graph('torch_erf_gelu', [N('Gemm', ['x', 'w1', 'b1'], ['a'], transB=1), N('Div', ['a', 'sqrt2'], ['d']), N('Erf', ['d'], ['e']),
                             N('Add', ['e', 'one'], ['f']), N('Mul', ['a', 'f'], ['g']), N('Mul', ['g', 'half'], ['b']),
                             N('Gemm', ['b', 'w2', 'b2'], ['y'], transB=1)],
          [info('x', ['batch', 6])], [info('y', ['batch', 3])],
          dict(dense, sqrt2=np.float32(2 ** 0.5), one=np.float32(1), half=np.float32(0.5)), {'x': x})
    graph('keras_dense', [N('MatMul', ['x', 'k1'], ['a']), N('Add', ['a', 'b1'], ['b']), N('Relu', ['b'], ['c']),
                          N('MatMul', ['c', 'k2'], ['d']), N('Add', ['d', 'b2'], ['e']), N('Softmax', ['e'], ['y'])],
          [info('x', ['unk__5', 6])], [info('y', ['unk__6', 3])],
          {'k1': f32(6, 16), 'b1': f32(16), 'k2': f32(16, 3), 'b2': f32(3)}, {'x': x}, opset=13, ir=7)
    graph('keras_sigmoid', [N('MatMul', ['x', 'k1'], ['a']), N('Add', ['b1', 'a'], ['b']), N('Tanh', ['b'], ['c']),
                            N('MatMul', ['c', 'k2'], ['d']), N('Add', ['d', 'b2'], ['e']), N('Sigmoid', ['e'], ['y'])],
          [info('x', [None, 6])], [info('y', [None, 1])],
          {'k1': f32(6, 16), 'b1': f32(16), 'k2': f32(16, 1), 'b2': f32(1)}, {'x': x}, opset=9, ir=4)
    bn = {'s': f32(16) + 1, 't': f32(16), 'm': f32(16), 'v': np.abs(f32(16)) + 0.5}
    graph('torch_batchnorm', [N('Gemm', ['x', 'w1', 'b1'], ['a'], transB=1),
                              N('BatchNormalization', ['a', 's', 't', 'm', 'v'], ['n'], epsilon=1e-5),
                              N('Relu', ['n'], ['r']), N('Dropout', ['r'], ['b']), N('Gemm', ['b', 'w2', 'b2'], ['y'], transB=1)],
          [info('x', ['batch', 6])], [info('y', ['batch', 3])], dict(dense, **bn), {'x': x})
    graph('torch_batchnorm_first', [N('BatchNormalization', ['x', 's6', 't6', 'm6', 'v6'], ['n'], epsilon=1e-3),
                                    N('Gemm', ['n', 'w1', 'b1'], ['y'], transB=1)],
          [info('x', ['batch', 6])], [info('y', ['batch', 16])],
          dict({k: dense[k] for k in ('w1', 'b1')}, s6=f32(6) + 1, t6=f32(6), m6=f32(6), v6=np.abs(f32(6)) + 0.5), {'x': x})
    graph('keras_batchnorm', [N('MatMul', ['x', 'k1'], ['a']), N('Add', ['a', 'b1'], ['b']), N('Mul', ['b', 's'], ['c']),
                              N('Add', ['c', 't'], ['d']), N('LeakyRelu', ['d'], ['e'], alpha=0.3), N('MatMul', ['e', 'k2'], ['y'])],
          [info('x', [None, 6])], [info('y', [None, 3])], {'k1': f32(6, 16), 'b1': f32(16), 'k2': f32(16, 3), 's': bn['s'], 't': bn['t']}, {'x': x})
    image = f32(ROWS, 1, 4, 4, scale=1)
    graph('torch_flatten', [N('Flatten', ['x'], ['f'], axis=1), N('Gemm', ['f', 'w', 'b'], ['g'], transB=1), N('LogSoftmax', ['g'], ['y'], axis=1)],
          [info('x', ['batch', 1, 4, 4])], [info('y', ['batch', 5])], {'w': f32(5, 16), 'b': f32(5)}, {'x': image})
    graph('torch_view', [N('Shape', ['x'], ['s']), N('Constant', [], ['zero'], value=numpy_helper.from_array(np.array(0))),
                         N('Gather', ['s', 'zero'], ['n'], axis=0), N('Unsqueeze', ['n', 'axes'], ['nu']),
                         N('Concat', ['nu', 'minus'], ['shape'], axis=0), N('Reshape', ['x', 'shape'], ['f']),
                         N('Gemm', ['f', 'w', 'b'], ['y'], transB=1)],
          [info('x', ['batch', 1, 4, 4])], [info('y', ['batch', 5])],
          {'w': f32(5, 16), 'b': f32(5), 'axes': np.array([0]), 'minus': np.array([-1])}, {'x': image})
    graph('keras_reshape', [N('Reshape', ['x', 'shape'], ['f']), N('MatMul', ['f', 'k'], ['g']), N('Elu', ['g'], ['y'])],
          [info('x', [None, 4, 4])], [info('y', [None, 5])], {'k': f32(16, 5), 'shape': np.array([-1, 16])}, {'x': image[:, 0]}, opset=13, ir=7)
    graph('keras_transpose', [N('Transpose', ['x'], ['t'], perm=[0, 3, 1, 2]), N('ReduceMean', ['t'], ['m'], axes=[2, 3], keepdims=0),
                              N('MatMul', ['m', 'k'], ['y'])],
          [info('x', [None, 4, 4, 3])], [info('y', [None, 5])], {'k': f32(3, 5)}, {'x': f32(ROWS, 4, 4, 3)}, opset=13, ir=7)
    graph('clip_relu6', [N('Gemm', ['x', 'w1', 'b1'], ['a'], transB=1), N('Clip', ['a', 'lo', 'hi'], ['b']),
                         N('Gemm', ['b', 'w2', 'b2'], ['y'], transB=1)],
          [info('x', ['batch', 6])], [info('y', ['batch', 3])], dict(dense, lo=np.float32(0), hi=np.float32(6)), {'x': x})
    graph('clip_attrs', [N('Gemm', ['x', 'w1', 'b1'], ['a'], transB=1), N('Clip', ['a'], ['b'], min=-0.5, max=0.5),
                         N('Gemm', ['b', 'w2', 'b2'], ['y'], transB=1)],
          [info('x', ['batch', 6])] + [info(k, v.shape) for k, v in dense.items()], [info('y', ['batch', 3])], dense, {'x': x}, opset=8, ir=3)
    graph('two_inputs', [N('Concat', ['a', 'b'], ['c'], axis=1), N('Gemm', ['c', 'w', 'bias'], ['d'], transB=1), N('Tanh', ['d'], ['y'])],
          [info('a', ['n', 2]), info('b', ['n', 4])], [info('y', ['n', 3])], {'w': f32(3, 6), 'bias': f32(3)}, {'a': x[:, :2], 'b': x[:, 2:]})
    graph('embedding', [N('Gather', ['table', 'city'], ['e']), N('Flatten', ['e'], ['f']), N('Concat', ['f', 'x'], ['c'], axis=1),
                        N('Gemm', ['c', 'w', 'bias'], ['y'], transB=1)],
          [info('city', ['n', 1], T.INT64), info('x', ['n', 6])], [info('y', ['n', 3])],
          {'table': f32(10, 4), 'w': f32(3, 10), 'bias': f32(3)}, {'city': rng.integers(0, 10, (ROWS, 1)), 'x': x})
    graph('two_outputs', [N('Gemm', ['x', 'w1', 'b1'], ['h'], transB=1), N('Relu', ['h'], ['r']), N('Gemm', ['r', 'w2', 'b2'], ['logits'], transB=1),
                          N('Softmax', ['logits'], ['p'], axis=-1), N('ArgMax', ['logits'], ['label'], axis=1, keepdims=0)],
          [info('x', ['batch', 6])], [info('p', ['batch', 3]), info('label', ['batch'], T.INT64)], dense, {'x': x})
    graph('residual', [N('MatMul', ['x', 'k'], ['a']), N('Relu', ['a'], ['b']), N('Add', ['b', 'x'], ['c']), N('MatMul', ['c', 'k'], ['d']),
                       N('Add', ['d', 'c'], ['y'])], [info('x', ['b', 6])], [info('y', ['b', 6])], {'k': f32(6, 6)}, {'x': x})
    graph('standardise', [N('Sub', ['x', 'mean'], ['a']), N('Div', ['a', 'std'], ['b']), N('ReduceSum', ['b', 'axes'], ['y'], keepdims=1)],
          [info('x', ['b', 6])], [info('y', ['b', 1])], {'mean': f32(6), 'std': np.abs(f32(6)) + 1, 'axes': np.array([1])}, {'x': x})
    graph('batch_one_softmax0', [N('MatMul', ['x', 'k'], ['a']), N('Softmax', ['a'], ['y'], axis=-1)],
          [info('x', ['b', 6])], [info('y', ['b', 3])], {'k': f32(6, 3)}, {'x': x}, opset=11, ir=6)
    graph('bool_where', [N('Greater', ['x', 'zero'], ['g']), N('Where', ['g', 'x', 'neg'], ['w']), N('Cast', ['w'], ['y'], to=T.DOUBLE)],
          [info('x', ['b', 6])], [info('y', ['b', 6], T.DOUBLE)], {'zero': np.float32(0), 'neg': np.float32(-1)}, {'x': x})
    graph('metadata', [N('Gemm', ['x', 'w1', 'b1'], ['y'], transB=1)], [info('x', ['batch', 6])], [info('y', ['batch', 16])],
          {k: dense[k] for k in ('w1', 'b1')}, {'x': x}, metadata={'feature_names': '["a","b","c","d","e","f"]'})


def main(target):
    global folder
    folder = target
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    sklearn_models()
    trees()
    networks()
    print(f'{len(os.listdir(folder))} models in {folder}')


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
