"""Words so common that a hit on one means almost nothing. They count a little, and alone they count fully.

Written without accents, as `tokenizer.fold` leaves them.
"""

# ruff: noqa: E501, RUF001, SIM905 - words of many languages

_ENGLISH = """
a about after again all also am an and any are as at be because been before being between both but by can
could did do does doing done down during each either every few find for from further get give had has have
having he her here hers him his how i if in into is it its itself just know like made make many may me might
more most much must my need no nor not now of off on once only or other our out over own please remember
same say said shall she should show so some such tell than that the their them then there these they this
those through to too under until up use us very was we were what whats when where which while who whom whose
why will with would you your yours anything something someone ever did does dont im ive
"""
_GERMAN = """
aber alle als am an auch auf aus bei bin bis bist da damit dann das dass dein dem den der des die dies diese
dieser doch dort du durch ein eine einem einen einer eines er es euch fur gegen habe haben hat hatte ich ihm
ihn ihr im in ins ist ja jede jeder kann kein keine man mein meine mich mir mit nach nicht noch nun nur ob
oder ohne schon sein seine sich sie sind so soll uber um und uns unser unsere vom von vor wann war waren
warum was weil welche welchen welcher welches wenn wer werden wie wieder wir wird wo worden wurde zu zum zur
zwischen heisst wieviel gibt
"""
_FRENCH = """
a ai ainsi alors as au aucun aussi autre aux avec avoir avons avez c ce cela ces cet cette ceux chaque ci
comme comment d dans de des donc dont du elle elles en encore est et etait ete etre eu fait faut il ils j je
l la le les leur leurs lui m ma mais me meme mes moi mon n ne nos notre nous on ont ou par pas peu plus pour
pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se ses si son sont sur t ta te tes toi ton
tous tout toute tres tu un une va vers votre vos vous y combien
"""
_SPANISH = """
a al algo alguien ante antes aquel como con contra cual cuales cuando cuanto cuantos de del desde donde dos
durante e el ella ellas ellos en entre era eran es esa ese eso esta estaba estan estar este esto estos fue
ha hace hacer hacia han hasta hay he la las le les lo los mas me mi mis mucho muy nada ni no nos nosotros
nuestra nuestro o os otra otro para pero poco por porque que quien quienes se ser si sin sobre son su sus
tambien tanto te tener tengo tiene tienen todo todos tu tus un una uno unos y ya yo
"""
_ITALIAN = """
ai al alla alle anche avere che chi ci come con cosa cui da dai dal dalla degli dei del della delle di dove e
ed era erano essere fa fra gli ha hanno ho i il in io la le lei li lo loro lui ma mi mia mio ne nei nel nella
noi non nostra nostro o per perche piu poi qual quale quali quando quanto quello questa questo se sei si sia
siamo sono sta su sua sugli sui sul sulla suo tra tu tutti tutto un una uno vi voi
"""
_PORTUGUESE = """
a ao aos as ate com como da das de dela dele deles depois do dos e ela ele eles em entre era essa esse esta
estao estar estava este eu foi for foram ha isso isto ja lhe mais mas me mesmo meu meus minha muito na nao
nas nem no nos nossa nosso num numa o onde os ou para pela pelo por porque qual quais quando quanto que quem
sao se sem ser seu seus so sobre sua suas tambem te tem tenho ter tu tua um uma voce voces
"""
_DUTCH = """
aan al als bij dan dat de deze die dit doen door dus een en er geen had heb hebben heeft het hier hij hoe hun
ik in is ja je kan kunnen maar me meer men met mij mijn moet na naar niet nog nu of om omdat onder ons onze
ook op over te tegen toch toen tot uit van veel voor waar waarom wanneer want waren was wat we welke wel werd
wie wij worden wordt zal ze zelf zich zij zijn zo zonder zou
"""
_SWEDISH = """
och att det som en ett ar av for pa med den till inte om har de jag vi var hur vad nar vilken vilket
vilka fran eller men sa min mitt mina han hon ska kan
"""
_NORWEGIAN = """
og at det som en et er av for pa med den til ikke om har de jeg vi var hvordan hva nar hvem hvilken
hvilke fra eller men sa min mitt mine han hun skal kan hvad hvornar hvor der blev
"""
_FINNISH = """
ja ei se on joka mika missa milloin miten kuka mita oli ovat tai etta kun niin myos mutta
"""
_RUSSIAN = """
а без бы был была были было быть в вам вас весь во вот все всего всех вы где да для до его ее если
есть еще же за здесь и из или им их к как какая какие какой какое когда кто ли мне мои мой моя мы на
над нам нас наш наша не нет ни но ну о об он она они оно от по под при про с сколько со так также
там тебя то того тоже той только том ты у уже что чтобы чего чем чей это этого этом этот эта эти я
"""
_UKRAINIAN = """
який яка яке які як де коли що та це був була було є і в на до з за по не та у чи хто скільки
"""
_POLISH = """
i w we z ze na do o od po za dla nie sie jest sa byl byla bylo co jak gdzie kiedy kto ktory ktora
ktore czy oraz ale lub tak to ten ta te moj moja moje jaki jaka jakie ile dlaczego u
"""
_TURKISH = """
ve bir bu da de ile icin ne nasil nerede zaman hangi kim mi mu cok daha gibi kadar olan olarak var
yok ben sen biz siz o su her ama veya
"""
_ARABIC = """
في من علي الي عن ما ماذا متي متي اين كيف هل هذا هذه ذلك التي الذي كان كانت هو هي ان او و لا مع كم اي
لم
"""
_HEBREW = """
של את על עם אל לא כן הוא היא זה זו מה מי איפה מתי איך כמה למה או גם כי אם יש אין אני אנחנו היה
"""
_HINDI = """
का की के को में से पर है हैं था थी थे और या यह वह क्या कब कहां कहाँ कैसे कौन किस कितना कितने मेरा
मेरी हमारा
"""
_VIETNAMESE = """
va cua la co cho cac mot nhung nay do khong duoc trong voi khi nao o dau gi nhu the ai bao nhieu toi
chung ta
"""
_INDONESIAN = """
yang dan di ke dari untuk dengan ini itu apa siapa kapan mana bagaimana adalah tidak pada saya kami
kita
"""
_GREEK = """
ο η το οι τα του τησ των και σε με για απο που πωσ ποτε τι ποιοσ ποια ειναι ηταν να θα δεν μου μασ
"""
_KOREAN = """
무엇 언제 어디 누가 어떻게 왜 얼마 몇 그 이 저 것 수 및 는 은 를 을 가 에 의
"""

# By language, since a stop word of one may mean something in another.
STOP_WORDS = tuple(
    frozenset(words.split())
    for words in (
        _ENGLISH,
        _GERMAN,
        _FRENCH,
        _SPANISH,
        _ITALIAN,
        _PORTUGUESE,
        _DUTCH,
        _SWEDISH,
        _NORWEGIAN,
        _FINNISH,
        _RUSSIAN,
        _UKRAINIAN,
        _POLISH,
        _TURKISH,
        _ARABIC,
        _HEBREW,
        _HINDI,
        _VIETNAMESE,
        _INDONESIAN,
        _GREEK,
        _KOREAN,
    )
)

# Characters and pairs of Chinese and Japanese that only hold a sentence together.
STOP_GRAMS = frozenset(
    """
的 了 是 在 我 你 他 她 它 们 這 这 那 哪 和 与 與 就 不 都 也 很 吗 嗎 呢 吧 啊 把 被 给 給 对 對 从 從 到 要
会 會 能 可 以 有 没 沒 什 么 麼 怎 谁 誰 几 幾 个 個 请 請 上 下 里 裡 之 于 於 而 或 及 其 我们 我們 你们 什么
什麼 怎么 怎麼 么样 怎样 如何 为什 為什 哪里 哪裡 哪个 哪個 哪些 哪家 哪天 多少 几个 几点 时候 時候 是什 是多 是谁
的是 了什 有什 可以 应该 需要 关于 以及 一个 一個 这个 那个 上次 时间 的时 是哪 是否 有没 没有 有哪 吗是
は が を に へ と で も の や か ね よ な だ た て し れ る い う さ せ ま す ら り く ん
です ます した して する ある いる こと もの これ それ どれ この その どの ここ そこ どこ いつ なに なん だれ から
まで より ので のは のが のに とは には では でき れる られ ない なか たい たの っけ った って てい いて いた どう
何の 何時 何を 何で 何が どん んな くら らい ぐら いく くつ でし しょ ょう うか すか たか るか
""".split()
)
