/*
 * report.cc
 *	  Settings, random numbers and reports of the emulation.
 */
#include "emulation.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>

static uint64_t random_state;
static char first_report[1024];

/* ---- settings ---- */

static uint64_t
from_environment(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value == nullptr || *value == '\0' ? otherwise : strtoull(value, nullptr, 0);
}

static emulation_settings
settings_read()
{
	emulation_settings s = {};
	uint64_t	seed = 0;

	if (getrandom(&seed, 4, 0) != 4)
		seed = 1;
	s.gpus = (int) from_environment("INFER_EMULATED_GPUS", 1);
	if (s.gpus > EMULATION_GPUS_MAX)
		s.gpus = EMULATION_GPUS_MAX;
	s.sm = (int) from_environment("INFER_EMULATED_SM", 80);
	s.built = (int) from_environment("INFER_EMULATED_BUILT", (uint64_t) s.sm);
	s.processors = (int) from_environment("INFER_EMULATED_PROCESSORS", 4);
	s.driver = (int) from_environment("INFER_EMULATED_DRIVER", CUDART_VERSION);
	s.memory = from_environment("INFER_EMULATED_MEMORY", UINT64_C(1) << 30);
	s.seed = from_environment("INFER_EMULATED_SEED", seed);
	s.protect = (int) from_environment("INFER_EMULATED_PROTECT", 1);
	s.races = from_environment("INFER_EMULATED_RACES", 0) != 0;
	s.leaks = from_environment("INFER_EMULATED_LEAKS", 1) != 0;
	random_state = s.seed;
	return s;
}

emulation_settings settings = settings_read();

/* ---- random numbers: splitmix64 (Steele, Lea and Flood, 2014) ---- */

void
random_seed(uint64_t seed)
{
	settings.seed = seed;
	random_state = seed;
}

uint64_t
emulation_random()
{
	uint64_t	z = random_state += 0x9E3779B97F4A7C15;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
	return z ^ (z >> 31);
}

/* ---- reports ---- */

void
emulation_report(const char *format, ...)
{
	char		text[sizeof(first_report)];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (settings.collect)
	{
		if (first_report[0] == '\0')
			strcpy(first_report, text);
		return;
	}
	fflush(stdout);
	fprintf(stderr, "emulation: %s (INFER_EMULATED_SEED=%llu)\n", text, (unsigned long long) settings.seed);
	abort();
}

const char *
report_first()
{
	static char last[sizeof(first_report)];

	if (first_report[0] == '\0')
		return nullptr;
	strcpy(last, first_report);
	first_report[0] = '\0';
	return last;
}

void
text_add(std::vector<char> *text, const char *format, ...)
{
	char		line[256];
	va_list		args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	text->insert(text->end(), line, line + strlen(line));
}

/* ---- names: kernels are not exported, so only the table of all symbols has them (System V ABI, ELF-64) ---- */

/* The symbol that begins at this address of a file; "" if it has none. */
static void
symbol_find(FILE *file, uint64_t address, char *name, size_t bytes)
{
	ElfW(Ehdr) header;
	std::vector<ElfW(Shdr)> sections;

	name[0] = '\0';
	if (fread(&header, sizeof(header), 1, file) != 1 || header.e_shnum == 0)
		return;
	sections.resize(header.e_shnum);
	if (fseek(file, (long) header.e_shoff, SEEK_SET) != 0 ||
		fread(sections.data(), sizeof(sections[0]), sections.size(), file) != sections.size())
		return;
	for (const ElfW(Shdr) &section : sections)
	{
		if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size())
			continue;
		for (uint64_t at = 0; at < section.sh_size; at += sizeof(ElfW(Sym)))
		{
			ElfW(Sym) symbol;

			if (fseek(file, (long) (section.sh_offset + at), SEEK_SET) != 0 || fread(&symbol, sizeof(symbol), 1, file) != 1)
				return;
			if (symbol.st_value != address || (symbol.st_info & 15) != STT_FUNC)
				continue;
			if (fseek(file, (long) (sections[section.sh_link].sh_offset + symbol.st_name), SEEK_SET) == 0 &&
				fgets(name, (int) bytes, file) == nullptr)
				name[0] = '\0';
			return;
		}
	}
}

const char *
emulation_name(const void *function)
{
	static char text[512];
	char		mangled[512];
	Dl_info		info;
	FILE	   *file;
	char	   *plain;
	int			status;

	snprintf(text, sizeof(text), "kernel at %p", function);
	if (dladdr(function, &info) == 0 || (file = fopen(info.dli_fname, "r")) == nullptr)
		return text;
	symbol_find(file, (uint64_t) ((const uint8_t *) function - (const uint8_t *) info.dli_fbase), mangled, sizeof(mangled));
	fclose(file);
	if (mangled[0] == '\0')
		return text;
	plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
	snprintf(text, sizeof(text), "%.200s", plain != nullptr ? plain : mangled);
	free(plain);
	return text;
}
