/*
 * text_folders.c
 *	  Folders of text models: what the fixtures' say, what each setting does, and what is refused.
 */
#include <stdint.h>

#include "engine/graph/memory.h"
#include "engine/model/files.h"
#include "folder_fixture.h"
#include "protocol/protocol.h"
#include "tap.h"

static struct folder_fixture folder;
static struct status status;

/* ---- the fixtures ---- */

static const char *
facts(const struct encoder *e, char text[512])
{
	static const char *const tasks[] = {"", "embed", "classify", "rerank", "regression", "entities"};
	static const char *const poolings[] = {"tokens", "cls", "mean", "max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean"};
	size_t		used = (size_t) snprintf(text, 512, "%s: %s %s", e->format, tasks[e->task], poolings[e->pooling]);

	for (uint32_t i = 0; i < e->more_count; i++)
		used += (size_t) snprintf(text + used, 512 - used, " + %s", poolings[e->more[i]]);
	used += (size_t) snprintf(text + used, 512 - used, "%s, %u tokens", e->prompt_excluded ? " without prompt" : "", e->tokens_max);

	if (e->classes_count > 0)
		used += (size_t) snprintf(text + used, 512 - used, ", %u classes%s", e->classes_count, e->single_label ? ", one" : "");
	if (e->task == ENCODER_RERANKER)
		used += (size_t) snprintf(text + used, 512 - used, e->score == ENCODER_SIGMOID ? ", sigmoid" : ", as it is");
	if (e->denses_count > 0)
		used += (size_t) snprintf(text + used, 512 - used, ", %u dense", e->denses_count);
	if (e->normalize)
		used += (size_t) snprintf(text + used, 512 - used, ", normalized");
	if (e->prompt_default != NULL)
		snprintf(text + used, 512 - used, ", prompt %s", e->prompt_default);
	return text;
}

static void
test_fixture(const char *name, const char *options, const char *wanted)
{
	char		path[256], text[512];
	struct model_files files;
	struct encoder *encoder;

	status_clear(&status);
	snprintf(path, sizeof(path), "test/fixtures/text/%s", name);
	if (files_open_path(path, &files, &status) != FILES_OK)
	{
		tap_ok(false, "%s: no such folder", name);
		return;
	}
	encoder = encoder_read(&files, options, NULL, &status);
	if (encoder != NULL)
		facts(encoder, text);
	else
		snprintf(text, sizeof(text), "%.500s", status.message);
	tap_ok(strcmp(text, wanted) == 0 && encoder_recognises(&files), "%s: %s", name, text);
	encoder_free(encoder);
	files_close(&files);
}

static void
test_fixtures(void)
{
	static const char *const cases[][2] = {
		{"bert_mean", "safetensors (bert, float32): embed mean, 40 tokens, normalized"},
		{"bert_cls", "safetensors (bert, float32): embed cls, 48 tokens, normalized"},
		{"bert_max", "safetensors (bert, float32): embed max, 36 tokens"},
		{"bert_sqrt", "safetensors (bert, float32): embed mean_sqrt_len_tokens, 40 tokens"},
		{"bert_last", "safetensors (bert, float32): embed lasttoken, 48 tokens, normalized"},
		{"bert_dense", "safetensors (bert, float32): embed mean, 40 tokens, 2 dense, normalized"},
		{"bert_e5", "safetensors (bert, float32): embed mean, 48 tokens, normalized"},
		{"bert_default_prompt", "safetensors (bert, float32): embed cls, 48 tokens, prompt search"},
		{"bert_f16", "safetensors (bert, float16): embed mean, 40 tokens, normalized"},
		{"bert_bf16", "safetensors (bert, bfloat16): embed mean, 40 tokens, normalized"},
		{"bert_masked", "safetensors (bert, float32): embed cls, 40 tokens, normalized"},
		{"bert_vocabulary", "safetensors (bert, float32): embed mean, 40 tokens, normalized"},
		{"bert_classify", "safetensors (bert, float32): classify cls, 40 tokens, 5 classes, one, 1 dense"},
		{"bert_multi_label", "safetensors (bert, float32): classify cls, 48 tokens, 4 classes, 1 dense"},
		{"bert_regression", "safetensors (bert, float32): regression cls, 48 tokens, 1 dense"},
		{"bert_cross", "safetensors (bert, float32): rerank cls, 40 tokens, sigmoid, 1 dense"},
		{"bert_cross_identity", "safetensors (bert, float32): rerank cls, 48 tokens, as it is, 1 dense"},
		{"bert_cross_saved", "safetensors (bert, float32): rerank cls, 32 tokens, as it is, 1 dense"},
		{"bert_entities", "safetensors (bert, float32): entities tokens, 40 tokens, 7 classes"},
		{"distilbert_mean", "safetensors (distilbert, float32): embed mean, 44 tokens, normalized"},
		{"distilbert_classify", "safetensors (distilbert, float32): classify cls, 40 tokens, 2 classes, one, 1 dense"},
		{"roberta_mean", "safetensors (roberta, float32): embed mean, 44 tokens, normalized"},
		{"roberta_classify", "safetensors (roberta, float32): classify cls, 40 tokens, 3 classes, one, 1 dense"},
		{"roberta_cross", "safetensors (roberta, float32): rerank cls, 40 tokens, sigmoid, 1 dense"},
		{"roberta_entities", "safetensors (roberta, float32): entities tokens, 40 tokens, 5 classes"},
		{"xlm_roberta_mean", "safetensors (xlm-roberta, float32): embed mean, 40 tokens, normalized"},
		{"xlm_roberta_cross", "safetensors (xlm-roberta, float32): rerank cls, 40 tokens, sigmoid, 1 dense"},
		{"mpnet_mean", "safetensors (mpnet, float32): embed mean, 160 tokens, normalized"},
		{"modernbert_cls", "safetensors (modernbert, float32): embed cls, 128 tokens, normalized"},
		{"modernbert_classify", "safetensors (modernbert, float32): classify mean, 128 tokens, 3 classes, one, 1 dense"},
		{"modernbert_cross", "safetensors (modernbert, float32): rerank cls, 128 tokens, sigmoid, 1 dense"},
		{"nomic_mean", "safetensors (nomic_bert, float32): embed mean, 128 tokens, normalized"},
		{"nomic_biased", "safetensors (nomic_bert, float32): embed cls, 128 tokens, normalized"},
		{"gte_cls", "safetensors (new, float32): embed cls, 128 tokens, normalized"},
		{"gte_cross", "safetensors (new, float32): rerank cls, 96 tokens, sigmoid, 1 dense"},
		{"gte_mean", "safetensors (new, float32): embed mean, 64 tokens, normalized"},
		{"onnx_bert", "onnx (bert, float32): embed mean, 40 tokens, normalized"},
		{"onnx_bert_sdpa", "onnx (bert, float32): embed cls, 40 tokens, normalized"},
		{"onnx_bert_newer", "onnx (bert, float32): embed cls, 40 tokens, normalized"},
		{"onnx_bert_fast", "onnx (bert, float32): embed mean, 40 tokens, normalized"},
		{"onnx_bert_fused", "onnx (bert, float32): embed mean, 40 tokens, normalized"},
		{"onnx_bert_pooled", "onnx (bert, float32): embed mean, 40 tokens, normalized"},
		{"onnx_bert_runtime", "onnx (bert, float32): embed mean, 40 tokens, normalized"},
		{"onnx_bert_classify", "onnx (bert, float32): classify cls, 40 tokens, 3 classes, one, 1 dense"},
		{"onnx_distilbert", "onnx (distilbert, float32): embed mean, 40 tokens, normalized"},
		{"onnx_distilbert_fused", "onnx (distilbert, float32): embed mean, 40 tokens, normalized"},
		{"onnx_mpnet", "onnx (mpnet, float32): embed mean, 160 tokens, normalized"},
		{"onnx_roberta", "onnx (roberta, float32): embed mean, 40 tokens, normalized"},
		{"onnx_roberta_fused", "onnx (roberta, float32): embed mean, 40 tokens, normalized"},
		{"bert_relative", "\"position_embedding_type\" of config.json is not supported: \"relative_key_query\""},
		{"bert_prompt_excluded", "safetensors (bert, float32): embed mean without prompt, 48 tokens"},
		{"bert_two_poolings", "safetensors (bert, float32): embed cls + mean, 40 tokens"},
		{"bert_weighted", "safetensors (bert, float32): embed weightedmean, 48 tokens, normalized"},
		{"bert_sharded", "the folder does not say how a text's vector is made of its tokens'"},
		{"deberta", "the model_type \"deberta-v2\" of config.json is not supported"}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		test_fixture(cases[i][0], "", cases[i][1]);
	test_fixture("bert_sharded", "{\"pooling\": \"mean\"}", "safetensors (bert, float32): embed mean, 40 tokens");
}

/* ---- the small folder ---- */

/* Reads it; "" or what was wrong. */
static const char *
reads(const char *options)
{
	struct encoder *encoder;

	status_clear(&status);
	encoder = encoder_read(&folder.files, options, NULL, &status);
	if (encoder == NULL)
		return status.error != 0 && status.message[0] != '\0' ? status.message : "no message";
	encoder_free(encoder);
	return "";
}

static bool
says(const char *options, const char *wanted)
{
	const char *message = reads(options);

	if (strcmp(message, wanted) != 0)
		printf("# %s\n", message);
	return strcmp(message, wanted) == 0;
}

static void
test_headers(void)
{
	static const struct
	{
		const char *what;
		const char *header;
		size_t		bytes;
		const char *wanted;
	}			cases[] = {
		{"twice", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
		"the header of \"model.safetensors\" names something twice"},
		{"overlap", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12,
		"tensor \"b\" of \"model.safetensors\" overlaps another one"},
		{"end before begin", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8,
		"tensor \"a\" of \"model.safetensors\" ends before it begins"},
		{"shape times type", "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
		"tensor \"a\" of \"model.safetensors\" has other bytes than its shape and type need"},
		{"type", "{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[1000000000000,1000000000004]}}", 8,
		"tensor \"a\" of \"model.safetensors\" is of the unknown type \"F4\""},
		{"hole", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12,
		"tensor \"b\" of \"model.safetensors\" begins behind a gap"},
		{"behind the end", "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", 8,
		"tensor \"a\" of \"model.safetensors\" reaches past the end of the file"},
		{"bytes left", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
		"\"model.safetensors\" has bytes behind its last tensor"},
		{"overflow", "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
		"tensor \"a\" of \"model.safetensors\" has an impossible shape"},
		{"negative", "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
		"tensor \"a\" of \"model.safetensors\" has an impossible shape"},
		{"offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,1e300]}}", 4,
		"tensor \"a\" of \"model.safetensors\" has no data_offsets"},
		{"rank", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
		"tensor \"a\" of \"model.safetensors\" has more dimensions than are supported"},
		{"more members", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"scale\":1}}", 4,
		"tensor \"a\" of \"model.safetensors\" is not described by dtype, shape and data_offsets"},
		{"metadata", "{\"__metadata__\":{\"format\":1}}", 0, "the metadata of \"model.safetensors\" are not an object of texts"},
		{"no object", "[]", 0, "the header of \"model.safetensors\" is not a JSON object"}
	};
	static uint8_t long_header[16] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		folder_tiny(&folder);
		folder_header_put(&folder, "model.safetensors", cases[i].header, cases[i].bytes);
		tap_ok(says("", cases[i].wanted), "a header is refused: %s", cases[i].what);
	}
	folder_put(&folder, "model.safetensors", long_header, sizeof(long_header));
	tap_ok(says("", "the header of \"model.safetensors\" is longer than the file"), "a header of 2^64 - 1 bytes is refused");
	folder_put(&folder, "model.safetensors", "abc", 3);
	tap_ok(says("", "\"model.safetensors\" is too short for a safetensors file"), "a file of three bytes is refused");
}

static void
test_weights(void)
{
	static const char all[] = TINY_EMBEDDINGS TINY_LAYER TINY_POOLER;

	folder_tiny(&folder);
	tap_ok(says("", ""), "the small folder is read");
	for (size_t pad = 1; pad < 4; pad++)
	{
		folder_weights_put(&folder, "model.safetensors", all, "", "F32", pad);
		tap_ok(says("", ""), "weights that are off by %zu bytes are read", pad);
	}
	folder_weights_put(&folder, "model.safetensors", all, "bert.", "BF16", 0);
	tap_ok(says("", ""), "names may begin with the model's");
	folder_weights_put(&folder, "model.safetensors", all, "0.auto_model.", "F16", 0);
	tap_ok(says("", ""), "names may begin with sentence-transformers'");
	folder_weights_put(&folder, "model.safetensors", all, "electra.", "F32", 0);
	tap_ok(says("", "the weights have no tensor \"embeddings.word_embeddings.weight\", as a model of type \"bert\" has"), "other names may not");
	folder_weights_put(&folder, "model.safetensors", TINY_EMBEDDINGS TINY_LAYER "bert.embeddings.word_embeddings.weight 10 4", "", "F32", 0);
	tap_ok(says("", "the weights have \"embeddings.word_embeddings.weight\" and \"bert.embeddings.word_embeddings.weight\""), "two models in one file are refused");
	folder_weights_put(&folder, "model.safetensors", all, "", "I64", 0);
	tap_ok(says("", "tensor \"embeddings.word_embeddings.weight\" is of the type I64; F32, F16 and BF16 are supported"), "whole numbers are refused");
	folder_weights_put(&folder, "model.safetensors", TINY_EMBEDDINGS, "", "F32", 0);
	tap_ok(says("", "the weights have no tensor \"encoder.layer.0.attention.self.query.weight\""), "a tensor that is not there is named");
	folder_weights_put(&folder, "model.safetensors", TINY_EMBEDDINGS TINY_LAYER "encoder.layer.0.attention.self.distance_embedding.weight 15 2", "", "F32", 0);
	tap_ok(says("", "tensor \"encoder.layer.0.attention.self.distance_embedding.weight\" is not supported: no model of type \"bert\" with this configuration has it"),
		   "a tensor that nobody knows is named");
	folder_weights_put(&folder, "model.safetensors", TINY_EMBEDDINGS TINY_LAYER "encoder.layer.1.output.dense.bias 4;embeddings.position_ids 1 8;cls.bias 3", "", "F32", 0);
	tap_ok(says("", ""), "layers beyond the configuration's, buffers and other heads are none of the model's");
	folder_weights_put(&folder, "model.safetensors", "embeddings.word_embeddings.weight 11 4", "", "F32", 0);
	tap_ok(says("", "tensor \"embeddings.word_embeddings.weight\" has the shape [11, 4], but the configuration says [10, 4]"), "a shape is checked");
	folder_remove(&folder, "model.safetensors");
	folder_text_put(&folder, "pytorch_model.bin", "x");
	tap_ok(says("", "the model's weights are only in \"pytorch_model.bin\", which is not supported") && strstr(status.hint, "save_pretrained") != NULL &&
		   encoder_recognises(&folder.files), "other formats are refused with the remedy");
	folder_remove(&folder, "pytorch_model.bin");
	tap_ok(says("", "the model has no file \"model.safetensors\"") && !encoder_recognises(&folder.files), "no weights are refused");
}

static void
test_shards(void)
{
	static const char first[] = "model-00001-of-00002.safetensors", second[] = "model-00002-of-00002.safetensors",
				index[] = "model.safetensors.index.json";

	folder_tiny(&folder);
	folder_remove(&folder, "model.safetensors");
	folder_weights_put(&folder, first, TINY_EMBEDDINGS, "", "F32", 0);
	folder_weights_put(&folder, second, TINY_LAYER, "", "F32", 0);
	folder_text_put(&folder, index, "{\"weight_map\":{\"embeddings.LayerNorm.bias\":\"model-00001-of-00002.safetensors\","
					"\"encoder.layer.0.output.dense.bias\":\"model-00002-of-00002.safetensors\"}}");
	folder_text_put(&folder, "stray.safetensors", "no such thing");
	tap_ok(says("", ""), "shards are read, and a stray file is not");
	folder_weights_put(&folder, second, TINY_LAYER TINY_EMBEDDINGS, "", "F32", 0);
	tap_ok(says("", "tensor \"embeddings.LayerNorm.bias\" is in \"model-00001-of-00002.safetensors\" and in \"model-00002-of-00002.safetensors\"") ||
		   says("", "tensor \"embeddings.LayerNorm.bias\" is in \"model-00002-of-00002.safetensors\" and in \"model-00001-of-00002.safetensors\""),
		   "a tensor in two shards is refused");
	folder_remove(&folder, second);
	tap_ok(says("", "\"model.safetensors.index.json\" names the file \"model-00002-of-00002.safetensors\", which the model does not have"), "a missing shard is named");
	folder_weights_put(&folder, second, TINY_LAYER, "", "F32", 0);
	folder_text_put(&folder, index, "{\"weight_map\":{\"embeddings.LayerNorm.bias\":\"model-00002-of-00002.safetensors\"}}");
	tap_ok(says("", "tensor \"embeddings.LayerNorm.bias\" is not in the file \"model-00002-of-00002.safetensors\", where \"model.safetensors.index.json\" says it is"),
		   "an index that says what is not so is refused");
	folder_text_put(&folder, index, "{\"weight_map\":{\"a\":\"../x.safetensors\"}}");
	tap_ok(says("", "\"model.safetensors.index.json\" names the file \"../x.safetensors\", which the model does not have"), "no file outside is ever looked at");
	folder_text_put(&folder, index, "{}");
	tap_ok(says("", "\"model.safetensors.index.json\" has no weight_map"), "an index without a map is refused");
}

/* ---- config.json ---- */

static bool
config_says(const char *architecture, const char *members, const char *options, const char *wanted)
{
	char		text[2048];

	snprintf(text, sizeof(text), TINY_BERT, architecture, members);
	folder_text_put(&folder, "config.json", text);
	return says(options, wanted);
}

static void
test_config(void)
{
	static const struct
	{
		const char *members;
		const char *wanted;
	}			cases[] = {
		{",\"hidden_act\":\"quick_gelu\"", "\"hidden_act\" of config.json is not supported: \"quick_gelu\""},
		{",\"position_embedding_type\":\"relative_key\"", "\"position_embedding_type\" of config.json is not supported: \"relative_key\""},
		{",\"is_decoder\":true", "\"is_decoder\" of config.json is not supported: true"},
		{",\"pruned_heads\":{\"0\":[1]}", "\"pruned_heads\" of config.json is not supported: {\"0\":[1.0]}"},
		{",\"quantization_config\":{\"bits\":4}", "\"quantization_config\" of config.json is not supported: {\"bits\":4.0}"},
		{",\"auto_map\":{\"AutoModel\":\"modeling.X\"}", "\"auto_map\" of config.json is not supported: {\"AutoModel\":\"modeling.X\"}"},
		{",\"layer_norm_eps\":-1", "the epsilon of config.json's layer norms is not from 0 to 1"},
		{",\"layer_norm_eps\":\"x\"", "\"layer_norm_eps\" of config.json is not a number"},
		{",\"problem_type\":\"other\"", "\"problem_type\" of config.json is not supported: \"other\""},
		{",\"use_cache\":true,\"torch_dtype\":\"float32\",\"pruned_heads\":{},\"quantization_config\":null,\"gradient_checkpointing\":false", ""}
	};

	folder_tiny(&folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tap_ok(config_says("BertModel", cases[i].members, "", cases[i].wanted), "config.json with %s", cases[i].members + 1);
	folder_text_put(&folder, "config.json", "{\"model_type\":\"bert\",\"hidden_size\":4.5}");
	tap_ok(says("", "\"hidden_size\" of config.json is not a whole number"), "sizes are whole");
	folder_text_put(&folder, "config.json", "{\"model_type\":\"mpnet\",\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
					"\"intermediate_size\":6,\"vocab_size\":10,\"max_position_embeddings\":8,\"relative_attention_num_buckets\":512}");
	tap_ok(says("", "\"relative_attention_num_buckets\" of config.json is not from 4 to 511"), "no more distances are told apart than there are");
	folder_text_put(&folder, "config.json", "{}");
	tap_ok(says("", "config.json has no model_type"), "a model_type is wanted");
	folder_tiny(&folder);
	folder_text_put(&folder, "adapter_config.json", "{}");
	tap_ok(says("", "the folder has an adapter (adapter_config.json), which is not supported"), "an adapter is refused");
}

static void
test_tasks(void)
{
	static const char one[] = TINY_EMBEDDINGS TINY_LAYER TINY_POOLER "classifier.weight 1 4;classifier.bias 1";
	static const char three[] = TINY_EMBEDDINGS TINY_LAYER TINY_POOLER "classifier.weight 3 4;classifier.bias 3";

	folder_tiny(&folder);
	folder_remove(&folder, "modules.json");
	tap_ok(says("", "the folder does not say how a text's vector is made of its tokens'") && strstr(status.hint, "{\"pooling\": \"mean\"}") != NULL,
		   "an embedding without modules.json wants the option pooling");
	tap_ok(says("{\"pooling\":\"cls\",\"normalize\":true}", ""), "and is content with it");
	folder_weights_put(&folder, "model.safetensors", one, "", "F32", 0);
	tap_ok(config_says("BertForSequenceClassification", "", "", ""), "one class ranks");
	tap_ok(config_says("BertForSequenceClassification", "", "{\"task\":\"classify\",\"labels\":[\"good\"]}", ""), "or is a class, if the option says so");
	tap_ok(config_says("BertForSequenceClassification", ",\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules.activation.Mish\"}", "",
					   "the activation \"torch.nn.modules.activation.Mish\" of a cross-encoder is not supported"), "another function of a cross-encoder is refused");
	tap_ok(config_says("BertForQuestionAnswering", "", "", "the architecture \"BertForQuestionAnswering\" of config.json is not supported for the model_type \"bert\"") &&
		   strstr(status.hint, "task") != NULL, "other heads are refused");
	tap_ok(config_says("RobertaModel", "", "", "the architecture \"RobertaModel\" of config.json is not supported for the model_type \"bert\""), "the class and the type agree");
	tap_ok(config_says("BertModel\",\"BertForTokenClassification", "", "{\"pooling\":\"cls\"}",
					   "the architecture \"BertModel, ...\" of config.json is not supported for the model_type \"bert\""), "of two classes neither is taken");
	tap_ok(config_says("BertModel\",\"BertForTokenClassification", "", "{\"pooling\":\"cls\",\"task\":\"embed\"}", ""), "unless the option says which");
	folder_weights_put(&folder, "model.safetensors", three, "", "F32", 0);
	tap_ok(config_says("BertForSequenceClassification", "", "", ""), "three classes have the usual names where there are no others");
	tap_ok(config_says("BertForSequenceClassification", "", "{\"task\":\"rerank\"}", "the option task asks for one number, but the model has 3"), "three cannot rank");
	tap_ok(config_says("BertForSequenceClassification", ",\"id2label\":{\"0\":\"a\",\"1\":\"b\"}", "", "\"id2label\" of config.json names 2 classes, but the weights have 3"),
		   "labels are counted");
	tap_ok(config_says("BertForSequenceClassification", ",\"id2label\":{\"0\":\"a\",\"2\":\"a\",\"1\":\"b\"}", "", "two classes are both called \"a\""), "and distinct");
	tap_ok(config_says("BertForSequenceClassification", ",\"id2label\":{\"0\":\"a\",\"2\":\"a\",\"1\":\"b\"}", "{\"labels\":[\"x\",\"y\",\"z\"]}", ""), "the option labels names them");
	tap_ok(config_says("BertForSequenceClassification", ",\"id2label\":{\"0\":\"a\",\"2\":\"b\",\"3\":\"c\"}", "", "\"id2label\" of config.json has no label of number 1") &&
		   config_says("BertForSequenceClassification", ",\"id2label\":{\"0\":\"a\",\"2\":\"b\",\"3\":\"c\"}", "{\"labels\":[\"x\",\"y\",\"z\"]}", ""),
		   "labels are counted from 0, or named by the option");
	tap_ok(config_says("BertForSequenceClassification", "", "{\"labels\":[\"x\"]}", "the option labels names 1 classes, but the model has 3"), "all of them");
	tap_ok(config_says("BertForSequenceClassification", ",\"problem_type\":\"regression\"", "",
					   "\"problem_type\" of config.json is not supported: a regression of 3 numbers"), "a regression of several numbers is refused");
	tap_ok(config_says("BertForSequenceClassification", "", "{\"pooling\":\"mean\"}", "the option pooling is for embeddings"), "a classifier has its own pooling");
	folder_weights_put(&folder, "model.safetensors", TINY_EMBEDDINGS TINY_LAYER TINY_POOLER, "", "F32", 0);
	tap_ok(config_says("BertForSequenceClassification", "", "", "the weights have no tensor \"classifier.weight\", as a classifier of type \"bert\" has"), "a head that is not there is named");
}

static bool
modules_say(const char *more, const char *pooling, const char *wanted)
{
	char		text[2048];

	snprintf(text, sizeof(text), TINY_MODULES, more);
	folder_text_put(&folder, "modules.json", text);
	snprintf(text, sizeof(text), TINY_POOLING, pooling);
	folder_text_put(&folder, "1_Pooling/config.json", text);
	return says("", wanted);
}

/* The poolings of the folder, in their order. */
static bool
poolings_are(const char *options, const char *wanted)
{
	static const char *const names[] = {"", "cls", "mean", "max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean"};
	struct encoder *encoder = encoder_read(&folder.files, options, NULL, &status);
	char		text[256] = "refused";
	size_t		used;

	if (encoder != NULL)
	{
		used = (size_t) snprintf(text, sizeof(text), "%s", names[encoder->pooling]);
		for (uint32_t i = 0; i < encoder->more_count; i++)
			used += (size_t) snprintf(text + used, sizeof(text) - used, " %s", names[encoder->more[i]]);
	}
	encoder_free(encoder);
	return strcmp(text, wanted) == 0;
}

#define MODULE(type, path)	",{\"type\":\"sentence_transformers.models." type "\",\"path\":\"" path "\"}"

static void
test_modules(void)
{
	folder_tiny(&folder);
	tap_ok(modules_say(MODULE("Normalize", "2_Normalize"), "", ""), "Normalize");
	tap_ok(modules_say(MODULE("CNN", "2_CNN"), "", "the module \"CNN\" of modules.json is not supported"), "an unknown module is named");
	folder_text_put(&folder, "modules.json", "[{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"0_Transformer\"}]");
	tap_ok(says("", "the module \"Transformer\" of modules.json is not supported in a folder of its own"), "a transformer's folder must be there");
	folder_text_put(&folder, "0_Transformer/config.json", "{}");
	tap_ok(says("", "the module \"Transformer\" of modules.json is not supported in a folder of its own"), "and be the only one");
	folder_remove(&folder, "0_Transformer/config.json");
	tap_ok(modules_say(",{\"type\":\"my_package.Dense\",\"path\":\"\"}", "", "the module \"my_package.Dense\" of modules.json is not supported"), "so is one of another package");
	tap_ok(modules_say(MODULE("Normalize", "") MODULE("Dense", "3_Dense"), "", "the module \"Dense\" of modules.json is not supported behind Normalize"), "Normalize is the last");
	tap_ok(modules_say(MODULE("Dense", "2_Dense"), "", "the model has no file \"2_Dense/config.json\", which a module of modules.json needs"), "a module's settings are wanted");
	folder_text_put(&folder, "2_Dense/config.json", "{\"in_features\":4,\"out_features\":3,\"activation_function\":\"torch.nn.modules.activation.Tanh\"}");
	tap_ok(modules_say(MODULE("Dense", "2_Dense"), "", "the model has no file \"2_Dense/model.safetensors\""), "and its weights");
	folder_weights_put(&folder, "2_Dense/model.safetensors", "linear.weight 3 4;linear.bias 3", "", "F32", 0);
	tap_ok(modules_say(MODULE("Dense", "2_Dense"), "", ""), "Dense");
	tap_ok(modules_say(MODULE("Dense", "2_Dense") MODULE("Dense", "2_Dense"), "", "2_Dense/config.json is for vectors of 4 numbers, but the one before gives 3"), "widths follow one another");
	folder_text_put(&folder, "2_Dense/config.json", "{\"in_features\":4,\"out_features\":3,\"activation_function\":\"torch.nn.modules.activation.Softplus\"}");
	tap_ok(modules_say(MODULE("Dense", "2_Dense"), "", "\"activation_function\" of 2_Dense/config.json is not supported: \"torch.nn.modules.activation.Softplus\""), "an unknown activation is named");
	folder_text_put(&folder, "2_Dense/config.json", "{\"in_features\":4,\"out_features\":3,\"activation_function\":\"torch.nn.modules.activation.Tanh\"}");
	tap_ok(modules_say(MODULE("Dense", "2_Dense"), ",\"pooling_mode_cls_token\":true", "2_Dense/config.json is for vectors of 4 numbers, but the one before gives 8"),
		   "two modes at once make a vector twice as long");
	folder_text_put(&folder, "2_Dense/config.json", "{\"in_features\":8,\"out_features\":3,\"activation_function\":\"torch.nn.modules.activation.Tanh\"}");
	folder_weights_put(&folder, "2_Dense/model.safetensors", "linear.weight 3 8;linear.bias 3", "", "F32", 0);
	tap_ok(modules_say(MODULE("Dense", "2_Dense"), ",\"pooling_mode_cls_token\":true", ""), "and a Dense takes that");
	tap_ok(says("{\"pooling\":\"mean\"}", "the option pooling is not for a model whose Dense takes several poolings"), "which an option cannot change");
	tap_ok(modules_say("", ",\"pooling_mode_cls_token\":true,\"pooling_mode_weightedmean_tokens\":true", "") &&
		   poolings_are("", "cls mean weightedmean") && poolings_are("{\"pooling\":\"max\"}", "max"), "flags of modes have their order, and an option takes their place");
	tap_ok(modules_say("", ",\"pooling_mode\":\"cls\"", "") && poolings_are("", "cls"), "the newer form of a mode");
	tap_ok(modules_say("", ",\"pooling_mode\":[\"lasttoken\",\"cls\",\"cls\"]", "") && poolings_are("", "lasttoken cls cls"), "and of several, in their own order");
	tap_ok(modules_say("", ",\"pooling_mode\":[\"mean\",\"attention\"]", "the pooling mode \"attention\" of 1_Pooling/config.json is not supported"), "an unknown one among them is named");
	tap_ok(modules_say("", ",\"pooling_mode\":[\"mean\",1]", "\"pooling_mode\" of 1_Pooling/config.json is not a mode or a list of modes"), "each is a name");
	tap_ok(modules_say("", ",\"pooling_mode\":[]", "1_Pooling/config.json names no pooling mode"), "none is none");
	tap_ok(modules_say("", ",\"pooling_mode\":[\"cls\",\"cls\",\"cls\",\"cls\",\"cls\",\"cls\",\"cls\"]", "1_Pooling/config.json names more than 6 pooling modes"), "there is an end");
	tap_ok(modules_say("", ",\"pooling_mode_attention\":true", "\"pooling_mode_attention\" of 1_Pooling/config.json is not supported: true"), "an unknown mode is named");
	tap_ok(modules_say("", ",\"include_prompt\":false", ""), "the prompt's tokens do not matter where there is no prompt");
	folder_text_put(&folder, "config_sentence_transformers.json", "{\"prompts\":{\"query\":\"q: \"},\"default_prompt_name\":null}");
	tap_ok(modules_say("", ",\"include_prompt\":false", "") &&
		   says("{\"pooling\":\"cls\"}", "pooling \"cls\" without the prompt's tokens, as \"include_prompt\" asks for, is not supported") &&
		   modules_say("", ",\"include_prompt\":false,\"pooling_mode_cls_token\":true", "pooling \"cls\" without the prompt's tokens, as \"include_prompt\" asks for, is not supported"),
		   "and are left out where there is, unless it is the first token that is taken");
	folder_text_put(&folder, "config_sentence_transformers.json", "{\"prompts\":{\"query\":\"q: \"},\"default_prompt_name\":\"passage\"}");
	tap_ok(modules_say("", "", "the default prompt \"passage\" of config_sentence_transformers.json is not among its prompts"), "the default prompt is there");
	tap_ok(says("{\"default_prompt\":null}", "") && says("{\"default_prompt\":\"query\"}", "") && says("{\"prompts\":{\"passage\":\"p: \"}}", ""), "options change prompts");
	tap_ok(says("{\"default_prompt\":\"x\"}", "the option default_prompt names \"x\", but the model has no such prompt"), "the option names one that is there");
	folder_text_put(&folder, "config_sentence_transformers.json", "{\"model_type\":\"SparseEncoder\"}");
	tap_ok(says("", "\"model_type\" of config_sentence_transformers.json is not supported: \"SparseEncoder\""), "other kinds are refused");
	folder_remove(&folder, "config_sentence_transformers.json");
	folder_text_put(&folder, "sentence_bert_config.json", "{\"max_seq_length\":5,\"do_lower_case\":true}");
	tap_ok(says("", "\"do_lower_case\" of sentence_bert_config.json is not supported where the tokenizer keeps capitals"), "lower-casing before a cased tokenizer is refused");
	folder_text_put(&folder, "tokenizer_config.json", "{\"do_lower_case\":true,\"model_max_length\":1000000000000000019884624838656}");
	tap_ok(says("", ""), "and is the tokenizer's own otherwise");
}

/* A transformer whose files lie in a folder that modules.json calls so. */
static bool
inner_says(const char *inner, const char *said, const char *wanted)
{
	char		names[3][64], text[256];
	static const char *const moved[] = {"config.json", "model.safetensors"};
	struct graph_memory memory;
	const struct model_files *seen;
	struct encoder *encoder = NULL;

	folder_tiny(&folder);
	for (int i = 0; i < 2; i++)
		for (uint32_t at = 0; at < folder.files.count; at++)
			if (strcmp(folder.list[at].name, moved[i]) == 0)
			{
				snprintf(names[i], sizeof(names[i]), "%s/%s", inner, moved[i]);
				folder.list[at].name = names[i];
			}
	snprintf(text, sizeof(text), "[{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"%s\"},"
			 "{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"1_Pooling\"}]", said);
	folder_text_put(&folder, "modules.json", text);
	status_clear(&status);
	graph_memory_init(&memory, 1 << 20, &status);
	seen = encoder_recognises(&folder.files) ? encoder_files(&folder.files, &memory) : NULL;
	if (seen != NULL)
		encoder = encoder_read(seen, "", NULL, &status);
	if (strcmp(status.message, wanted) != 0)
		printf("# %s\n", status.message);
	encoder_free(encoder);
	graph_memory_free(&memory);
	folder_clear(&folder);
	return (encoder != NULL) == (wanted[0] == '\0') && strcmp(status.message, wanted) == 0;
}

static void
test_inner(void)
{
	static const char *const refused[] = {"../0_BERT", "/0_BERT", "0_BERT/..", "./0_BERT", "a//b"};

	tap_ok(inner_says("0_Transformer", "0_Transformer", "") && inner_says("0_BERT", "0_BERT", "") && inner_says("a/..b", "a/..b", ""),
		   "a transformer is in the folder that modules.json names");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		tap_ok(inner_says("0_BERT", refused[i], "\"path\" of a module of modules.json is not the name of a folder below the model's"),
			   "and not \"%s\"", refused[i]);
}

/* The limit and where it is from, as "TOKENS FROM". */
static bool
limit_is(const char *options, const char *wanted)
{
	char		text[256] = "refused";
	struct encoder *encoder;

	status_clear(&status);
	encoder = encoder_read(&folder.files, options, NULL, &status);
	if (encoder != NULL)
		snprintf(text, sizeof(text), "%u %s", encoder->tokens_max, encoder->tokens_max_from);
	if (strcmp(text, wanted) != 0)
		printf("# %s %s\n", text, status.message);
	encoder_free(encoder);
	return strcmp(text, wanted) == 0;
}

static void
test_limits(void)
{
	folder_tiny(&folder);
	tap_ok(limit_is("", "8 config.json (max_position_embeddings)"), "without other limits the positions are one");
	folder_text_put(&folder, "tokenizer_config.json", "{\"model_max_length\":6}");
	tap_ok(limit_is("", "6 tokenizer_config.json (model_max_length)"), "the tokenizer's limit");
	folder_text_put(&folder, "sentence_bert_config.json", "{\"max_seq_length\":7}");
	tap_ok(limit_is("", "7 sentence_bert_config.json"), "sentence-transformers' takes its place");
	folder_text_put(&folder, "sentence_bert_config.json", "{\"max_seq_length\":512}");
	tap_ok(limit_is("", "8 config.json (max_position_embeddings)"), "none is over the positions");
	tap_ok(limit_is("{\"max_tokens\":5}", "5 the option max_tokens"), "the option takes the place of both");
	tap_ok(limit_is("{\"max_tokens\":9}", "refused") && strcmp(status.message, "the option max_tokens is 9, but the model has positions for 8 tokens only") == 0,
		   "and is refused over the positions");
}

/* Models whose code comes with them: settings in the place of a fixture's. */
static void
test_nomic(void)
{
	static const char with[] = "{\"model_type\":\"nomic_bert\",\"architectures\":[\"NomicBertModel\"],\"n_embd\":4,\"n_layer\":1,\"n_head\":2,"
				"\"n_inner\":6,\"n_positions\":64,\"vocab_size\":10,\"activation_function\":\"gelu\",\"rotary_emb_fraction\":1%s}";
	static const char weights[] = "embeddings.word_embeddings.weight 10 4;embeddings.token_type_embeddings.weight 2 4;emb_ln.weight 4;emb_ln.bias 4;"
				"encoder.layers.0.attn.Wqkv.weight 12 4;encoder.layers.0.attn.Wqkv.bias 12;encoder.layers.0.attn.out_proj.weight 4 4;"
				"encoder.layers.0.attn.out_proj.bias 4;encoder.layers.0.mlp.fc1.weight 6 4;encoder.layers.0.mlp.fc1.bias 6;"
				"encoder.layers.0.mlp.fc2.weight 4 6;encoder.layers.0.mlp.fc2.bias 4;encoder.layers.0.norm1.weight 4;encoder.layers.0.norm1.bias 4;"
				"encoder.layers.0.norm2.weight 4;encoder.layers.0.norm2.bias 4";
	static const char *const cases[][3] = {
		{"", "64 config.json (n_positions)", ""},
		{",\"rotary_scaling_factor\":2,\"max_trained_positions\":32", "32 config.json (max_trained_positions)", ""},
		{",\"rotary_scaling_factor\":2", "64 config.json (n_positions)", ""},
		{",\"moe_every_n_layers\":2", "refused", "\"moe_every_n_layers\" of config.json is not supported: 2.0"},
		{",\"norm_mlp\":true", "refused", "\"norm_mlp\" of config.json is not supported: true"},
		{",\"prenorm\":true", "refused", "\"prenorm\" of config.json is not supported: true"},
		{",\"auto_map\":{\"AutoModel\":\"x\"},\"norm_mlp\":false,\"summary_use_proj\":true", "64 config.json (n_positions)", ""}
	};

	folder_tiny(&folder);
	folder_weights_put(&folder, "model.safetensors", weights, "", "F32", 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char		text[1024];

		snprintf(text, sizeof(text), with, cases[i][0]);
		folder_text_put(&folder, "config.json", text);
		tap_ok(limit_is("", cases[i][1]) && strcmp(status.message, cases[i][2]) == 0, "Nomic's configuration%s%s", cases[i][0][0] == '\0' ? "" : " with ",
			   cases[i][0] + (cases[i][0][0] == ','));
	}
}

static void
test_options(void)
{
	folder_tiny(&folder);
	tap_ok(says("{\"precision\":\"bf16\",\"truncate\":true,\"store\":\"copy\"}", ""), "options");
	tap_ok(says("{\"precison\":\"bf16\"}", "unknown option \"precison\" of a text model"), "an unknown option is named");
	tap_ok(says("{\"precision\":\"f16\"}", "the option precision is not \"f32\", \"bf16\" or \"int8\""), "a precision that is none");
	tap_ok(says("{\"truncate\":1}", "the option truncate is not true or false"), "a flag that is none");
	tap_ok(says("{\"max_tokens\":0}", "the option max_tokens is not a whole number from 1 to 1048576"), "a limit that is none");
	tap_ok(says("{\"task\":\"translate\"}", "the option task is not \"embed\", \"classify\", \"rerank\", \"regression\" or \"entities\""), "a task that is none");
	tap_ok(says("[]", "the model's options are not a JSON object"), "options are an object");
}

int
main(void)
{
	test_fixtures();
	test_headers();
	test_weights();
	test_shards();
	test_config();
	test_tasks();
	test_modules();
	test_inner();
	test_limits();
	test_nomic();
	test_options();
	folder_clear(&folder);
	return tap_done();
}
