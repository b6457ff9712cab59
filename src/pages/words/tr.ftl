# Kullanıcıların okuduğu bütün sözler, Türkçe. Derleme her iletiden bir yöntem üretir (build.rs); bir ileti en.ftl
# dosyasında yoksa veya orada başka değişkenler alıyorsa derleme durur.
# Adlar cümleye bütün olarak, <bdi> içinde girer ve hiçbir ada ek getirilmez: ek, "uygulama" veya "hesap" gibi bir
# sözcüğe gelir. Başlıklarda ve özniteliklerde geçen iletilerde etiket bulunmaz.

## Her sayfada

document-title = { $page } – { $operator }
document-title-problem = Hata: { $page } – { $operator }
language-switch = Dil
language-turkish = Türkçe
language-english = English

## Oturum açma

login-title = Oturum açın
login-lead = <bdi>{ $operator }</bdi> hesabınızı kullanın.
login-lead-client = <bdi>{ $client }</bdi> uygulamasına geçmek için <bdi>{ $operator }</bdi> hesabınızı kullanın.
login-email = E-posta adresi veya kullanıcı adı
login-password = Parola
login-show-password = Parolayı göster
login-caps-lock = Caps Lock açık.
login-keep = Bu cihazda oturumum açık kalsın
login-keep-hint = Tarayıcıyı kapatsanız da oturumunuz açık kalır. Başkalarının da kullandığı bir cihazda seçmeyin.
login-submit = Oturum aç
login-wrong-credentials =
    E-posta adresi, kullanıcı adı veya parola hatalı. Kontrol edip yeniden deneyin. Parolanızı unuttuysanız yöneticinizden
    yeni bir parola isteyin.
login-throttled-seconds = Çok fazla oturum açma denemesi yapıldı. { $seconds } saniye bekleyip yeniden deneyin. Her hatalı deneme bir sonraki bekleme süresini uzatır.
login-throttled-minutes = Çok fazla oturum açma denemesi yapıldı. { $minutes } dakika bekleyip yeniden deneyin. Her hatalı deneme bir sonraki bekleme süresini uzatır.
login-forgot = Unuttum
login-forgot-label = Unuttum, parolayı sıfırla
login-create-account = Hesabınız yok mu? Hesap oluşturun
login-or = veya
login-wrong-credentials-reset = E-posta adresi, kullanıcı adı veya parola hatalı. Kontrol edip yeniden deneyin. Parolanızı unuttuysanız aşağıdan sıfırlayın.
login-directory-away = Kurumunuzun dizini yanıt vermediği için oturum açılamadı. Yazdıklarınızı kontrol edin, birkaç saniye bekleyip yeniden deneyin.
login-account-disabled = Hesabınız kurumunuzun dizininde devre dışı. Yöneticinizden hesabınızı etkinleştirmesini isteyin.
login-account-expired = Kurumunuzun dizinindeki hesabınızın süresi doldu. Yöneticinizden süreyi uzatmasını isteyin.
login-password-expired = Parolanızın süresi doldu. Parolanızı kurumunuzun bilgisayarlarında oturum açtığınız yerde değiştirin, sonra burada yeni parolanızla oturum açın.
login-name-taken = E-posta adresinizi veya kullanıcı adınızı burada başka bir hesap kullanıyor. Yöneticinizden hesapları bağlamasını isteyin.
login-nameless = Kurumunuzun dizinindeki hesabınızda burada kullanılabilecek bir e-posta adresi veya kullanıcı adı yok. Yöneticinizden eklemesini isteyin.
login-upstream = <bdi>{ $label }</bdi> ile devam et
login-local = Bu hizmetin parolasıyla oturum aç
login-upstream-denied = <bdi>{ $label }</bdi> üzerinden oturum açma iptal edildi veya reddedildi. Yeniden deneyin veya başka bir yolla oturum açın.
login-upstream-error = <bdi>{ $label }</bdi> bir hata bildirdiği için oturumunuz açılmadı. Yeniden deneyin; sorun sürerse yöneticinize bildirin.
login-upstream-away = <bdi>{ $label }</bdi> yanıt vermediği için oturumunuz açılamadı. Birkaç saniye bekleyip yeniden deneyin.
login-upstream-invalid = <bdi>{ $label }</bdi> geçerli bir yanıt vermediği için oturumunuz açılmadı. Yeniden deneyin; sorun sürerse yöneticinize bildirin.
login-upstream-groups = <bdi>{ $label }</bdi> hesabınız çok fazla gruba üye olduğu için gruplarınız alınamadı. Yöneticinize bildirin.
login-upstream-not-allowed = <bdi>{ $label }</bdi> hesabınız burada kullanılamaz. Orada başka bir hesapla oturum açın veya yöneticinize başvurun.
login-upstream-not-linked = <bdi>{ $label }</bdi> hesabınız buradaki bir hesaba bağlı değil. Yöneticinizden bağlamasını isteyin.
login-upstream-name-taken = <bdi>{ $label }</bdi> hesabınızın e-posta adresini veya kullanıcı adını burada başka bir hesap kullanıyor. Yöneticinizden hesapları bağlamasını isteyin.
login-upstream-nameless = <bdi>{ $label }</bdi> hesabınızda burada kullanılabilecek bir e-posta adresi veya kullanıcı adı yok. Yöneticinizden eklemesini isteyin.
login-upstream-disabled = Hesabınız devre dışı. Yöneticinizden hesabınızı etkinleştirmesini isteyin.
login-upstream-not-recent = Bu sayfa için yeniden oturum açmanız gerekiyor, ancak <bdi>{ $label }</bdi> sizden bunu istemedi. Orada oturumu kapatıp yeniden deneyin; sorun sürerse yöneticinize bildirin.
login-upstream-other-origin = <bdi>{ $label }</bdi> ayarları son oturum açışınızdan sonra değiştiği için buradaki hesabınız kullanılmadı. Yöneticinizden hesabı yeniden bağlamasını isteyin.
login-busy = Şu anda çok sayıda kişi oturum açtığı için parolanız kontrol edilemedi. Birkaç saniye bekleyip yeniden deneyin.

## Başka bir sağlayıcıda oturum açma

leave-title = Oturum açmaya devam edin
leave-text = <bdi>{ $label }</bdi> üzerinden oturum açıp buraya döneceksiniz.
leave-submit = Devam et
leave-out-title = Oturumunuz kapatılıyor
leave-out-text = Buradaki oturumunuz kapatıldı. Şimdi <bdi>{ $label }</bdi> oturumunuz da kapatılacak.

## Unutulan parola

forgot-title = Parolanızı mı unuttunuz?
forgot-lead = E-posta adresinizi veya kullanıcı adınızı girin. Bir <bdi>{ $operator }</bdi> hesabına aitse, yeni parola seçebileceğiniz bağlantıyı e-postayla göndereceğiz.
forgot-submit = Bağlantı gönder
forgot-sign-in = Oturum açma sayfasına dön
forgot-asked-title = E-postanıza bakın
forgot-asked-lead = Böyle bir hesap varsa adresine bir e-posta gönderildi. İçindeki bağlantı 30 dakika içinde bir kez kullanılabilir.
forgot-asked-late = Birkaç dakika içinde bir şey gelmezse istenmeyen posta klasörünüze bakın.
forgot-asked-other = Hesabınız başka bir adrese veya kullanıcı adına bağlı da olabilir.
forgot-again = Başka bir adres veya kullanıcı adı deneyin
forgot-asked-administrator = E-posta yine gelmezse yöneticinize başvurun: adresiniz henüz doğrulanmamış veya çok sık istekte bulunmuş olabilirsiniz.
reset-title = Yeni parola seçin
reset-lead = <bdi>{ $operator }</bdi> hesabı: <bdi>{ $account }</bdi>. Bu hesap sizin değilse bu sayfayı kapatın.
reset-submit = Yeni parolayı kaydet
reset-ends = Bütün oturumlarınız kapatılacak; uygulamalar yeniden oturum açmanızı isteyecek. İki adımlı doğrulama açık kalır.
reset-done-title = Parolanız değiştirildi
reset-done-lead = Bütün oturumlarınız kapatıldı. Yeni parolanızla oturum açın.
reset-done-second-step = İki adımlı doğrulama kullanıyorsanız doğrulama her zamanki gibi istenir. Doğrulama yönteminizi de kaybettiyseniz yöneticinize başvurun.
error-reset-link-title = Bu bağlantı artık geçerli değil
error-reset-link-text = Sıfırlama bağlantısı 30 dakika içinde bir kez ve yalnızca parola, e-posta adresi veya hesap değişmediyse kullanılabilir. Oturum açma sayfasına gidip yeni bir bağlantı isteyin.
error-undo-link-text = Adres değişikliğini geri alan bağlantı bir kez ve en fazla 14 gün boyunca çalışır. Hesabınızı başka biri kullanıyorsa yöneticinize bildirin.

## Kişinin kendi açtığı hesap

create-title = Hesap oluşturun
create-lead = <bdi>{ $operator }</bdi> hizmetinde kendinize bir hesap açın. Önce e-posta adresinizin size ait olduğunu doğrulayın.
create-email = E-posta adresi
create-hint = Bu adrese bir doğrulama kodu göndereceğiz.
create-hint-domains = Bu adrese bir doğrulama kodu göndereceğiz. Şu alan adlarındaki adresler kullanılabilir: <bdi>{ $domains }</bdi>
create-domain = Bu adresle hesap açılamaz. Şu alan adlarından birindeki adresinizi girin veya yöneticinize başvurun: <bdi>{ $domains }</bdi>
create-busy = Şu anda çok sayıda kişi hesap açıyor. Birkaç dakika sonra yeniden deneyin.
create-over = Bu tarayıcıda beklenen bir kod yok: süresi dolmuş, çok kez yanlış girilmiş veya başka bir tarayıcıda istenmiş olabilir. Adresinizi yeniden girin.
create-taken = Bu adres zaten bir hesaba ait. Oturum açma sayfasına dönüp o hesabı kullanın; parolasını unuttuysanız orada sıfırlayabilirsiniz.
create-code-lead = Girdiğiniz adrese bir e-posta gönderdik. Bu adresle hesap açılabiliyorsa e-postada bir doğrulama kodu vardır. Kodu 15 dakika içinde, bu tarayıcıda girin.
create-code-none = E-posta gelmedi mi? Adresi kontrol edin, birkaç dakika bekleyin, sonra yeniden girin. Birkaç denemeden sonra bir saat boyunca e-posta gönderilmez. Yalnızca en yeni kod geçerlidir.
create-finish-title = Hesabınızı hazırlayın
create-finish-lead = <bdi>{ $operator }</bdi> hesabınızın adresi şu olacak: <bdi>{ $address }</bdi>
create-finish-submit = Hesabı oluştur ve devam et
create-finish-then = Oturumunuz hemen açılır.

## Davetler

invitation-title = Daveti kabul edin
invitation-lead = <bdi>{ $operator }</bdi> sizin için <bdi>{ $account }</bdi> adresiyle bir hesap açtı. Bu adres sizin değilse bu sayfayı kapatın.
invitation-lead-inviter = <bdi>{ $inviter }</bdi> sizi <bdi>{ $operator }</bdi> hizmetine davet ediyor. Hesap <bdi>{ $account }</bdi> adresi için açıldı. Bu adres sizin değilse bu sayfayı kapatın.
invitation-shared = Bu tarayıcıda başka birinin oturumu açık. Hesabınız onunkiyle karışmaz: kendi hesabınızla oturum açmanız istenecek.
invitation-password = Bir parola seçin
invitation-submit = Parolayı kaydet ve devam et
invitation-passkey = Bunun yerine geçiş anahtarı kullan
invitation-passkey-name = Geçiş anahtarının adı (isteğe bağlı)
invitation-passkey-only = Bu durumda hesabınızın parolası olmaz. Diğer cihazlarınızda da bulunan bir geçiş anahtarı kullanın veya daha sonra bir tane daha ekleyin.
invitation-password-instead = Bunun yerine parola seç
invitation-then = Ardından burada seçtiğiniz parola veya geçiş anahtarıyla oturum açacaksınız.
invitation-then-app = Ardından burada seçtiğiniz parola veya geçiş anahtarıyla oturum açıp <bdi>{ $app }</bdi> uygulamasına geçeceksiniz.
error-invitation-link-title = Bu davet artık geçerli değil
error-invitation-link-text = Daveti daha önce kabul ettiyseniz o zaman seçtiğiniz parola veya geçiş anahtarıyla oturum açın. Etmediyseniz davet geri alınmış, yenisiyle değiştirilmiş veya üzerinden 7 gün geçmiş olabilir: sizi davet eden kişiden yeni bir davet isteyin.

## Geçiş anahtarları ve iki adımlı doğrulama

passkey-login = Geçiş anahtarıyla oturum aç
login-passkey-refused =
    Geçiş anahtarı kabul edilmediği için oturumunuz açılmadı. Yeniden deneyin veya parolanızla oturum açın.
# Tarayıcının bir anahtar için bildirdikleri. Bu iletiler özniteliklerde kullanılır.
ceremony-waiting = Tarayıcınızın yönergelerini izleyin. Güvenlik anahtarınız yanıp sönünce ona dokunun.
ceremony-cancelled = Onay alınamadı: işlem iptal edildi veya bu cihazda hesabınıza ait bir anahtar yok. Yeniden deneyin veya başka bir yol seçin.
ceremony-not-made = Hiçbir şey eklenmedi: işlem iptal edildi veya anahtar bunu yapamıyor. Geçiş anahtarı için PIN kodu, parmak izi veya yüz gerekir. Yeniden deneyin veya başka bir yol seçin.
ceremony-late = Süresi içinde onaylamadınız. Yeniden deneyin.
ceremony-known = Bu cihaz veya anahtar hesabınıza zaten eklenmiş. Başka bir anahtar kullanın.
ceremony-security = Anahtarlar bu adreste çalışmaz. Siteyi her zamanki adresinden açın veya yöneticinize bildirin.
ceremony-unsupported = Bu tarayıcı veya anahtar bu işlemi yapamıyor. Başka bir anahtar, tarayıcı veya yol seçin.
ceremony-failed = Anahtardan geçerli bir yanıt alınamadı. Yeniden deneyin veya başka bir yol seçin.

factor-title = Siz olduğunuzu doğrulayın
factor-account = <bdi>{ $account }</bdi> hesabıyla oturum açıyorsunuz.
factor-account-client = <bdi>{ $client }</bdi> uygulamasında <bdi>{ $account }</bdi> hesabıyla oturum açıyorsunuz.
factor-app-code = Doğrulama uygulamanızdaki kod
factor-app-hint = Uygulama, 30 saniyede bir değişen altı haneli bir kod gösterir.
factor-recovery-code = Kurtarma kodu
factor-recovery-hint = İki adımlı doğrulamayı ayarlarken sakladığınız kodlardan biri. Her kod bir kez kullanılabilir.
factor-key-text = Güvenlik anahtarınızı takın veya bu cihaza yaklaştırın, ardından düğmeye basın. Geçiş anahtarı da kullanabilirsiniz.
factor-key-start = Güvenlik anahtarını veya geçiş anahtarını kullan
factor-key-scripts = Güvenlik anahtarı yalnızca JavaScript ile çalışır; JavaScript kapalı veya yüklenemedi. JavaScript’i açıp bu sayfayı yenileyin.
factor-key-scripts-others = Aşağıdan başka bir yol da seçebilirsiniz.
factor-submit = Devam et
factor-ways = Doğrulama yolları
factor-way-app = Doğrulama uygulaması
factor-way-key = Güvenlik anahtarı
factor-way-recovery = Kurtarma kodu
factor-lost = Bunların hiçbiri yanınızda değilse yöneticinizden yardım isteyin.
factor-start-over = Başka bir hesap kullan
factor-wrong-code = Kod hatalı. Uygulamanın göstereceği bir sonraki kodu girin. Her kod yalnızca bir kez kullanılabilir.
factor-wrong-recovery = Kurtarma kodu hatalı. Kontrol edip yeniden deneyin. Her kod yalnızca bir kez kullanılabilir.
factor-clock = Cihazınızın saati yanlış olduğu için kod doğrulanamadı. Saati otomatik olarak ayarlayın, ardından bir sonraki kodu girin.
factor-wait-seconds = Çok fazla hatalı deneme yapıldı. { $seconds } saniye bekleyip yeniden deneyin. Her hatalı deneme bir sonraki bekleme süresini uzatır.
factor-wait-minutes = Çok fazla hatalı deneme yapıldı. { $minutes } dakika bekleyip yeniden deneyin. Her hatalı deneme bir sonraki bekleme süresini uzatır.
factor-blocked = Çok fazla hatalı deneme yapıldığı için bu yöntem engellendi. Engeli kaldırmak için başka bir yolla doğrulayın veya yöneticinize başvurun.
factor-key-refused = Anahtar kabul edilmedi. Hesabınıza eklediğiniz bir anahtarı kullanın veya başka bir yol seçin.
factor-key-copied =
    Anahtar bu kez kabul edilmedi: birisi anahtarı kopyalamış olabilir. Anahtarı az önce başka bir pencerede kullandıysanız
    yeniden deneyin. Kullanmadıysanız başka bir yolla doğrulayın ve anahtarı hesabınızdan kaldırın.
factor-busy = Hizmet çok yoğun olduğu için hiçbir şey kontrol edilemedi. Birkaç saniye bekleyip yeniden deneyin.

factor-kind-app = Doğrulama uygulaması
factor-kind-security-key = Güvenlik anahtarı
factor-kind-passkey = Geçiş anahtarı
factor-kind-recovery = Kurtarma kodları
factor-in-browser = Geçiş anahtarı ({ $browser }, { $system })
factor-named = { $kind }: <bdi>{ $name }</bdi>

enrol-title = İki adımlı doğrulamayı ayarlayın
enrol-lead = İki adımlı doğrulama, birisi parolanızı öğrense bile hesabınızı korur.
enrol-account = <bdi>{ $account }</bdi> hesabı için ayarlıyorsunuz.
enrol-choose-app = Doğrulama uygulaması
enrol-choose-app-hint = Telefonunuzdaki bir uygulama, parolanızdan sonra gireceğiniz kodu gösterir.
enrol-choose-key = Güvenlik anahtarı veya geçiş anahtarı
enrol-choose-key-hint = Cihaza taktığınız bir anahtar veya telefonunuzun ya da bilgisayarınızın ekran kilidi. Sizi sahte oturum açma sayfalarından da korur.
enrol-strong = Burada yalnızca bir güvenlik anahtarı veya geçiş anahtarı yeterlidir.
enrol-other = Başka bir yolla ekle
enrol-app-title = Doğrulama uygulaması ekleyin
enrol-app-scan = Bu kodu doğrulama uygulamanızla okutun:
enrol-app-link = Uygulamayı bu cihazda aç
enrol-app-secret = Kodu okutamıyorsanız uygulamaya şu gizli anahtarı girin:
enrol-app-code = Uygulamanın şu anda gösterdiği kod
enrol-app-confirm = Onayla
enrol-name = Ad (isteğe bağlı)
enrol-name-hint = Daha sonra tanıyabileceğiniz bir ad, örneğin “telefonum”.
enrol-key-title = Güvenlik anahtarı veya geçiş anahtarı ekleyin
enrol-key-security = Güvenlik anahtarı ekle
enrol-key-security-hint = Güvenlik anahtarı, parolanızdan sonra istenir.
enrol-key-passkey = Geçiş anahtarı oluştur
enrol-key-passkey-hint = Geçiş anahtarıyla parolasız oturum açarsınız: cihazınız PIN kodunuzu, parmak izinizi veya yüzünüzü ister.
enrol-key-scripts = Anahtarlar yalnızca JavaScript ile çalışır. Bir doğrulama uygulaması da ekleyin: Uygulamayla, JavaScript’in kapalı olduğu cihazlarda ve anahtarı kaybettiğinizde de oturum açabilirsiniz.
enrol-later = Şimdi değil
enrol-later-until = Bunu şu zamana kadar erteleyebilirsiniz: { $moment }.
enrol-wrong-code = Kod hatalı. Uygulamanın şu anda gösterdiği kodu girin. Yine kabul edilmezse uygulamadaki kaydı silip kodu yeniden okutun.
enrol-expired = Onaylama süresi dolduğu için yeni bir kod oluşturuldu. Uygulamadaki eski kaydı silip bunu okutun.
enrol-key-known = Bu anahtar bir hesaba zaten eklenmiş. Başka bir anahtar kullanın.
enrol-key-refused = Yanıtı doğrulanamadığı için anahtar eklenmedi. Yeniden deneyin veya başka bir anahtar kullanın.
enrol-key-unverified = Geçiş anahtarı eklenmedi: cihaz PIN kodunuzu, parmak izinizi veya yüzünüzü istemedi. Onu güvenlik anahtarı olarak ekleyin veya başka bir cihaz kullanın.
enrol-full = Ekleyebileceğiniz en fazla doğrulama yöntemi sayısına ulaştınız. Artık kullanmadığınız bir yöntemi kaldırıp yeniden deneyin.

codes-title = Kurtarma kodlarınızı saklayın
codes-lead = Doğrulama yönteminizi kullanamadığınızda bu kodların her biri bir kez onun yerine geçer. Kodları yalnızca sizin bulabileceğiniz bir yerde saklayın. Kodlar bir daha gösterilmeyecek.
codes-replaced = Size daha önce verilen kodlar artık geçersiz.
codes-of = <bdi>{ $operator }</bdi>, <bdi>{ $account }</bdi> hesabının kurtarma kodları
codes-download = İndir
codes-print = Yazdır
codes-kept = Kodları sakladım

unmet-title = Daha güçlü bir doğrulama gerekiyor
unmet-two = <bdi>{ $client }</bdi> uygulaması yalnızca iki adımlı doğrulamayla oturum açıldığında kullanılabilir.
unmet-two-own = Bu sayfa yalnızca iki adımlı doğrulamayla oturum açıldığında kullanılabilir.
unmet-resistant = <bdi>{ $client }</bdi> uygulaması yalnızca güvenlik anahtarı veya geçiş anahtarıyla oturum açıldığında kullanılabilir.
unmet-resistant-own = Bu sayfa yalnızca güvenlik anahtarı veya geçiş anahtarıyla oturum açıldığında kullanılabilir.
unmet-account = <bdi>{ $account }</bdi> hesabınızda bunun için gereken doğrulama yöntemi tanımlı değil.
unmet-way-self = Hesabınızın “Güvenlik” sayfasından ekleyin, ardından uygulamayı yeniden açın.
unmet-way-administrator = Yöneticinizden bunu sizin için ayarlamasını isteyin, ardından uygulamayı yeniden açın.
unmet-security = “Güvenlik” sayfasına git
unmet-back = <bdi>{ $client }</bdi> uygulamasına dön
unmet-back-own = Geri dön
error-factors-reset-title = Yöneticinizin verdiği bağlantıyı açın
error-factors-reset-text =
    Hesabınızda doğrulama yöntemi yok. Eklemek için bir yöneticinin size verdiği bağlantıyı açın. Bağlantı 24 saat içinde
    bir kez kullanılabilir. Elinizde bağlantı yoksa yöneticinizden isteyin.
error-enrolment-link-title = Bu bağlantı artık geçerli değil
error-enrolment-link-text = Bağlantı 24 saat içinde bir kez, yalnızca yenisi oluşturulana kadar kullanılabilir. Yöneticinizden yeni bir bağlantı isteyin.

## İzin

consent-title = Erişim izni
consent-heading = <bdi>{ $client }</bdi> uygulaması <bdi>{ $operator }</bdi> hesabınıza erişmek istiyor
consent-account = <bdi>{ $account }</bdi> hesabıyla oturum açtınız.
consent-self-registered =
    <bdi>{ $client }</bdi> uygulaması buraya kendi seçtiği adla, kendiliğinden kaydoldu. <bdi>{ $operator }</bdi> yöneticileri
    bu uygulamayı incelemedi. Yalnızca uygulamayı tanıyorsanız ve işlemi az önce kendiniz başlattıysanız izin verin.
consent-on-device =
    <bdi>{ $client }</bdi> bu cihazdaki bir program. Cihazdaki başka programlar onun adını kullanabilir. Yalnızca işlemi az
    önce kendiniz başlattıysanız izin verin.
consent-needs-approval =
    <bdi>{ $client }</bdi> uygulamasının korunan uygulamaları sizin adınıza kullanabilmesi için bir <bdi>{ $operator }</bdi>
    yöneticisinin onayı gerekir. Onay verilene kadar istekleri reddedilir.
consent-resource = İzin verirseniz <bdi>{ $client }</bdi> uygulaması <bdi>{ $app }</bdi> uygulamasını sizin adınıza kullanabilecek:
consent-resource-address = Uygulamanın adresi
consent-shares = İzin verirseniz <bdi>{ $client }</bdi> uygulamasına şunlar iletilecek:
consent-scope-openid = Kullanıcı kimliğiniz
consent-scope-profile = Profil bilgileriniz
consent-scope-email = E-posta adresiniz
consent-scope-phone = Telefon numaranız
consent-scope-groups = Üyesi olduğunuz gruplar
consent-scope-offline-access = Siz yokken de erişim
consent-nothing-stored = Kayıtlı bilgi yok.
consent-no-address = Hesabınızda e-posta adresi yok.
consent-offline = Ben yokken de erişmeye devam etsin
consent-offline-hint =
    Böylece <bdi>{ $client }</bdi> uygulaması, siz yeniden oturum açmadan hesabınızı kullanmayı sürdürebilir. Bu kutunun
    işaretini kaldırıp diğerlerine yine de izin verebilirsiniz.
consent-publisher = Yayımlayan
consent-publisher-operator = <bdi>{ $operator }</bdi>
consent-publisher-developer = <bdi>{ $developer }</bdi>. <bdi>{ $operator }</bdi> yöneticileri incelemedi.
consent-publisher-nobody = Bilinmiyor. <bdi>{ $operator }</bdi> yöneticileri incelemedi.
consent-publisher-itself = Bilinmiyor: kendiliğinden kaydoldu
consent-new = Yeni
consent-website = Web sitesi
consent-terms = Kullanım koşulları
consent-policy = Gizlilik politikası
consent-return = Dönüş adresi
consent-remembered = İzin verirseniz aynı erişim için bir daha sorulmaz.
consent-allow = İzin ver
consent-deny = Reddet

## Hesap seçimi

chooser-title = Hesap seçin
chooser-lead = <bdi>{ $client }</bdi> uygulamasına hangi hesapla devam etmek istiyorsunuz?
chooser-lead-own = Hangi hesabı yönetmek istiyorsunuz?
chooser-other = Başka bir hesap kullan

## Oturumu kapatma

logout-title = Oturum kapatılsın mı?
logout-asked-by = <bdi>{ $client }</bdi> uygulaması oturumunuzun kapatılmasını istiyor.
logout-account = <bdi>{ $account }</bdi> hesabıyla oturum açtınız.
logout-effect = Bu işlem, bu tarayıcıdaki <bdi>{ $operator }</bdi> oturumunuzu sonlandırır.
logout-confirm = Oturumu kapat
logout-stay = Oturumu açık tut
signed-out-title = Oturumunuz kapatıldı
signed-out-close = Bu sayfayı kapatabilirsiniz.
signed-out-upstream = <bdi>{ $label }</bdi> oturumunuz hâlâ açık. Cihazı başkalarıyla paylaşıyorsanız oradan da çıkış yapın.
signed-out-close-client = Bu sayfayı kapatabilir veya <bdi>{ $client }</bdi> uygulamasına dönebilirsiniz.
signed-out-app-login = <bdi>{ $app }</bdi> uygulamasındaki oturumunuz da kapatıldı.
signed-out-others = Bazı uygulamalarda oturumunuz, oradan da çıkış yapana kadar açık kalabilir.
signed-out-sign-in = Yeniden oturum aç

## Uygulamaya erişim yok

forbidden-title = Erişim yetkiniz yok
forbidden-text = <bdi>{ $account }</bdi> hesabının <bdi>{ $app }</bdi> uygulamasına erişim yetkisi yok.
forbidden-advice = Yöneticinizden erişim yetkisi isteyin veya yetkisi olan bir hesapla oturum açın.
forbidden-switch = Başka bir hesap kullan

app-login-title = <bdi>{ $app }</bdi> uygulamasında ayrı oturum açılıyor
app-login-missing = <bdi>{ $app }</bdi> uygulamasının kendi kullanıcı adları ve parolaları var. Kendi bilgilerinizi bir kez girin; sonrasında oturumunuz otomatik olarak açılır.
app-login-refused = <bdi>{ $app }</bdi> uygulaması kayıtlı kullanıcı adınızı veya parolanızı kabul etmedi. Bilgilerinizi yeniden girin.
app-login-service = <bdi>{ $app }</bdi> uygulaması hizmet hesabını kabul etmedi. Yöneticinizden parolayı düzeltmesini isteyin.
app-login-enter = Kullanıcı adı ve parola gir

## Oturum açılırken saklanan form

return-form-title = Bir saniye
return-form-text = <bdi>{ $host }</bdi> adresine geri dönüyorsunuz. Hiçbir şey olmazsa düğmeye basın.
return-form-submit = Devam et

kept-form-title = Formunuz gösterilsin mi?
kept-form-text =
    Formu gönderdiğinizde <bdi>{ $app }</bdi> uygulamasındaki oturumunuz sona ermişti. Form 15 dakika saklanır ve bir kez gösterilir.
kept-form-submit = Formu göster
send-again-title = Form şimdi gönderilsin mi?
send-again-text =
    <bdi>{ $app }</bdi> uygulamasına bir form gönderdiğinizde oturumunuz sona ermişti. Yazdıklarınız saklandı, ancak
    henüz gönderilmedi.
send-again-account = Form, <bdi>{ $account }</bdi> hesabıyla gönderilecek.
send-again-submit = Formu gönder
send-again-instead = Göndermeden devam et
send-again-once = Bu sayfa yalnızca bir kez gösterilir. Sayfadan ayrılırsanız yazdıklarınız silinir.

## Hatalar: ne oldu ve ne yapmalı

error-unknown-client-title = Bu uygulama kayıtlı değil
error-unknown-client-text =
    Sizi buraya gönderen uygulama <bdi>{ $operator }</bdi> hizmetinde kayıtlı değil veya devre dışı bırakılmış.
    Uygulamaya geri dönün ve durumu uygulamayı yönetenlere bildirin.
error-redirect-uri-title = Yönlendirme adresine izin verilmiyor
error-redirect-uri-text =
    Uygulama sizi kayıtlı olmayan bir adrese göndermemizi istedi; güvenliğiniz için işlemi durdurduk. Uygulamayı
    yönetenlerin, gönderilen <code>redirect_uri</code> değerini aynen kaydetmesi gerekir.
error-no-redirect-uri-title = Yönlendirme adresi eksik
error-no-redirect-uri-text =
    Uygulama sizi hangi adrese geri göndereceğimizi belirtmediği için devam edemiyoruz. Uygulamayı yönetenlerin,
    kaydettikleri <code>redirect_uri</code> değerini her istekte göndermesi gerekir.
error-logout-redirect-uri-title = Yönlendirme adresine izin verilmiyor
error-logout-redirect-uri-text =
    Uygulama, oturum kapatıldıktan sonra sizi kayıtlı olmayan bir adrese göndermemizi istedi; bu yüzden işlemi durdurduk.
    Uygulamayı yönetenlerin, gönderilen <code>post_logout_redirect_uri</code> değerini aynen kaydetmesi gerekir.
error-invalid-request-title = Geçersiz istek
error-invalid-request-text =
    İsteğin bir bölümü eksik veya hatalı. Uygulamaya geri dönüp yeniden başlayın. Sorun sürerse uygulamayı yönetenlere
    bildirin.
error-expired-form-title = Bu sayfanın süresi doldu
error-expired-form-text =
    Sayfa çok uzun süre açık kaldı veya başka bir tarayıcıda açıldı. Hiçbir şey değiştirilmedi. Uygulamaya geri dönüp
    yeniden başlayın.
error-cookie-missing-title = Oturum açmayı bu tarayıcıda başlatın
error-cookie-missing-text =
    Bu oturum açma işlemi başka bir tarayıcıda başlatıldı ya da tarayıcınız çerezi saklamadı. Uygulamaya gidip oradan oturum
    açın. Bu sayfa yeniden gelirse bu site için çerezlere izin verin.
error-nothing-to-do-title = Uygulamadan başlayın
error-nothing-to-do-text =
    Bu tarayıcıda devam eden bir oturum açma işlemi yok. Kullanmak istediğiniz uygulamayı açın; oturum açmanız gerektiğinde
    sizi buraya yönlendirir.
error-signed-in-already-title = Oturumunuz zaten açık
error-signed-in-already-text = Bu adım tamamlandı; bu sayfada yapılacak başka bir şey yok.
error-unknown-host-title = Bu adreste bir şey yok
error-unknown-host-text = Bu sunucu adını kullanan bir uygulama yok. Adresi doğru yazdığınızdan emin olun.
error-for-programs-title = Bu adres uygulamalar içindir
error-for-programs-text = Uygulamalar bu adresi kendi aralarında kullanır. Burada görülecek bir sayfa yok.
error-link-trip-title = Hesaplar bağlanmadı
error-link-trip-text = Bu işlem tamamlanmış veya iptal edilmiş, süresi dolmuş ya da başka bir tarayıcıda veya başka bir oturumda başlatılmış. Hiçbir şey değişmedi. Yeniden başlamak için hesabınızda “Güvenlik” sayfasını açın.
error-upstream-trip-title = Bu oturum açma işlemi sona erdi
error-upstream-trip-text = Başka bir sağlayıcıda başlattığınız oturum açma işlemi daha önce tamamlanmış, süresi dolmuş veya başka bir tarayıcıda başlatılmış. Bu sayfa oturumunuzu açmadı. Baştan başlayın.
way-again = Yeniden dene
way-application = <bdi>{ $name }</bdi> uygulamasına git
way-start = Başlangıç sayfasına git
way-account = Hesabınıza gidin
way-another-account = Başka bir hesap kullan
error-not-found-title = Sayfa bulunamadı
error-not-found-text = Bu adreste bir sayfa yok. Adresi doğru yazdığınızdan emin olun.
maintenance-title = Bakım çalışması
maintenance-text = <bdi>{ $app }</bdi> uygulaması bakımda olduğu için şu anda kullanılamıyor.
maintenance-until = Uygulamanın yeniden açılacağı tahmini zaman: { $moment }.
maintenance-switch = Başka bir hesap kullan
error-network-title = Buradan erişilemez
error-network-text = Bu sayfa yalnızca ofis veya VPN gibi belirli ağlardan açılabilir. Bu ağlardan birine bağlanıp sayfayı yenileyin.
error-too-many-requests-title = Çok fazla istek
error-too-many-requests-seconds = Ağınızdan çok fazla istek geldi. { $seconds } saniye bekleyip bu sayfayı yenileyin.
error-too-many-requests-minutes = Ağınızdan çok fazla istek geldi. { $minutes } dakika bekleyip bu sayfayı yenileyin.
error-sign-in-loop-title = Oturum açma tamamlanamadı
error-sign-in-loop-text =
    Kısa sürede birkaç kez ileri geri yönlendirildiğiniz için işlemi durdurduk. Bu site ve uygulama için çerezlere izin verip
    uygulamayı yeniden açın. Sorun sürerse yöneticinize bildirin.
error-upstream-title = Uygulama yanıt vermiyor
error-upstream-text =
    Sizden kaynaklanan bir sorun yok: bu adresteki uygulamaya şu anda ulaşılamıyor. Birkaç dakika sonra yeniden deneyin.
error-unavailable-title = Şu anda kullanılamıyor
error-unavailable-text =
    Sizden kaynaklanan bir sorun yok: hizmet şu anda çok yoğun veya bakımda. Biraz sonra yeniden deneyin.
error-form-of-another-title = Bu form başka bir hesaba ait
error-form-of-another-text =
    Bu tarayıcıdan gönderilen form, şu anda oturum açtığınız hesaba değil, başka bir hesaba ait. Form silindi, hiçbir şey
    gönderilmedi.
error-form-not-kept-title = Form artık yok
error-form-not-kept-text =
    Bir form 15 dakika saklanır ve bir kez gösterilir. Buradan hiçbir şey gönderilmedi. Uygulamaya geri dönüp formu yeniden
    doldurun.
error-sign-in-needed-title = Devam etmek için oturum açın
error-sign-in-needed-text =
    Oturumunuz kapalı ya da uygulama yeniden oturum açmanızı istiyor. Gönderdikleriniz uygulamaya ulaşmadı. Oturum açıp bu
    sayfaya geri dönün: tarayıcınızın Geri düğmesi yazdıklarınızı yeniden gösterebilir.
error-internal-title = Bir sorun oluştu
error-internal-text =
    Sorun sizden değil, bizden kaynaklanıyor. Yeniden deneyin; sorun sürerse yöneticinize bildirin.
error-reference = Yardım isterken şu başvuru kodunu verin:

## Hesap sayfaları

skip-to-content = İçeriğe geç
# Bir zamanın yazılışı, strftime işaretleriyle.
moment-pattern = %d.%m.%Y %H:%M UTC
moment-pattern-seconds = %d.%m.%Y %H:%M:%S UTC
device = { $browser }, { $system }
device-unknown = Bilinmeyen tarayıcı

menu-account = Hesabınız
menu-profile = Profil
menu-password = Parola
menu-security = Güvenlik
menu-sessions = Cihazlar ve erişim
menu-app-passwords = Uygulama parolaları
menu-app-logins = Giriş bilgileri
menu-sign-out = Oturumu kapat
menu-switch = Başka bir hesap kullan

done-profile = Profiliniz kaydedildi.
done-password = Parolanız değiştirildi. Diğer bütün oturumlarınız kapatıldı; uygulamalar yeniden oturum açmanızı isteyecek.
done-address-verified = Adresiniz doğrulandı.
done-address-changed = Adresiniz değiştirildi. Eski adresinize de bilgi verildi; değişiklik en fazla 14 gün boyunca oradan geri alınabilir.
done-address-returned = Adresiniz değiştirildi. Eski adresinize de bilgi verildi.
done-address-added = Adresiniz eklendi. Artık bu adresle de oturum açabilirsiniz.
done-session = Oturum kapatıldı.
done-other-sessions = Diğer bütün oturumlar kapatıldı. Uygulamalar, siz yeniden oturum açana kadar hesabınıza erişemez.
done-withdrawn = Uygulamanın erişimi kaldırıldı.
done-app-password = Uygulama parolası iptal edildi. Artık kullanılamaz.
done-app-login = Giriş bilgileriniz kaydedildi.
done-app-login-removed = Giriş bilgileriniz silindi.
done-factor-added = Doğrulama yöntemi eklendi. Parolanızla oturum açarken istenecek.
done-factor-renamed = Ad değiştirildi.
done-factor-removed = Doğrulama yöntemi kaldırıldı. Artık oturum açmak için kullanılamaz.

profile-title = Profiliniz
profile-lead-managed = Adınız, telefon numaranız ve adresiniz kurumunuzun dizininden gelir. Buradan bir resim ekleyebilirsiniz.
profile-lead-upstream = Adınız, telefon numaranız ve adresiniz <bdi>{ $label }</bdi> hesabınızdan gelir. Buradan bir resim ekleyebilirsiniz.
profile-lead = Uygulamalar bu bilgileri siz izin verdiğinizde görür.
profile-email = E-posta adresi
profile-email-hint = Bu adresle oturum açarsınız. Adresi yalnızca yöneticiniz değiştirebilir.
profile-email-hint-none = Adresi yalnızca yöneticiniz ekleyebilir.
profile-username = Kullanıcı adı
profile-username-hint = Bu adla da oturum açabilirsiniz; uygulamalar sizi bu adla gösterebilir. Adı yalnızca yöneticiniz değiştirebilir.
profile-username-hint-only = Oturum açarken bunu kullanırsınız; uygulamalar da gösterebilir. Yalnızca yöneticiniz değiştirebilir.
profile-name = Ad ve soyad
profile-phone = Telefon numarası (isteğe bağlı)
profile-phone-hint = Ülke koduyla birlikte yazın; örneğin +90 555 111 22 33.
profile-picture = Profil fotoğrafı (isteğe bağlı)
profile-picture-hint = Fotoğrafın https:// ile başlayan adresi.
profile-picture-alt = Profil fotoğrafınız
profile-save = Kaydet
profile-updated = Son değişiklik: { $moment }
profile-problem = Hiçbir şey kaydedilmedi. İşaretli alanları düzeltip yeniden kaydedin.
profile-name-wrong = 1 ile 200 karakter arasında bir ad yazın.
profile-phone-wrong = Numarayı artı işareti ve ülke koduyla yazın (örneğin +90 555 111 22 33) veya alanı boş bırakın.
profile-picture-wrong = https:// ile başlayan bir adres yazın veya alanı boş bırakın.

address-title = E-posta adresi
address-lead = Bu adresle oturum açarsınız; hesabınızla ilgili e-postalar da bu adrese gönderilir.
address-lead-none = Kullanıcı adınızla oturum açıyorsunuz. Adresiniz olmadığı sürece hesabınızla ilgili e-posta alamaz ve unuttuğunuz parolayı sıfırlayamazsınız.
address-verified = Doğrulandı
address-unverified = Doğrulanmadı
address-none = Adres yok
address-change = Adresi değiştir
address-add = Adres ekle
address-verify-or-change = Doğrula veya değiştir
address-verify-lead = Uygulamalar adresinize ancak siz onu doğruladıktan sonra güvenebilir. Adresinize bir doğrulama kodu göndereceğiz.
address-verify = Doğrulama kodu gönder
address-code-title = Doğrulama kodunu girin
address-code-lead = <bdi>{ $address }</bdi> adresine bir doğrulama kodu gönderdik. Kodu 15 dakika içinde, bu tarayıcıda girin.
address-code-lead-new =
    <bdi>{ $address }</bdi> adresine bir e-posta gönderdik. Bu adresi kullanabiliyorsanız e-postada bir doğrulama kodu
    vardır. Kodu 15 dakika içinde, bu tarayıcıda girin. O zamana kadar adresiniz değişmez.
address-code = Doğrulama kodu
address-code-hint = Sekiz rakam. E-postanın gelmesi birkaç dakika sürebilir; istenmeyen posta klasörüne de bakın.
address-code-submit = Onayla
address-code-again-lead = E-posta gelmedi mi? Adresi kontrol edin, birkaç dakika bekleyin, sonra yeni bir kod isteyin. Yalnızca en yeni kod geçerlidir.
address-code-again = Yeni kod gönder
address-code-again-new = Adresi yeniden gir
address-code-cancel = Vazgeç
address-wrong-code = Kod hatalı. En yeni e-postadaki kodu girin. Beş hatalı koddan sonra yeni bir kod gerekir.
address-over =
    Bu tarayıcıda beklenen bir kod yok: süresi doldu, çok kez yanlış girildi veya başka bir tarayıcıda istendi. Yeni bir kod
    isteyin.
address-too-many = Çok fazla kod gönderildi. En yeni kodu kullanın veya daha sonra yeniden deneyin.
address-busy = Şu anda e-posta gönderilemiyor. Birkaç dakika sonra yeniden deneyin.
address-undeliverable = Adresinize bu yazılışıyla e-posta gönderilemiyor. Adresi değiştirin veya yöneticinize başvurun.
address-taken = Bu adres artık başka bir hesaba ait; adresiniz değiştirilmedi.
new-address-title = Adresi değiştir
new-address-title-added = Adres ekle
new-address-lead = Şu anki adresiniz: <bdi>{ $address }</bdi>
new-address-lead-none = Hesabınızda e-posta adresi yok.
new-address-label = Yeni e-posta adresi
new-address-hint = Bu adrese bir doğrulama kodu göndereceğiz. Adresiniz ancak kodu girdiğinizde değişir.
new-address-hint-added = Bu adrese bir doğrulama kodu göndereceğiz. Adres ancak kodu girdiğinizde eklenir.
new-address-effects =
    Bundan sonra yeni adresle oturum açarsınız; eski adrese gönderilmiş bağlantılar ve kodlar artık çalışmaz. Oturumunuz açık
    kalır. Sizi adresinizle tanıyan bir uygulama sizi başka biri sanabilir; önce o uygulamanın yöneticisine sorun.
new-address-effects-added =
    Bundan sonra bu adresle de oturum açabilir, unuttuğunuz parolayı sıfırlayabilir ve hesabınızla ilgili e-postaları
    alırsınız. Uygulamalar adresi, siz izin verdiğinizde görür.
new-address-keep = Şu anki adres kalsın
new-address-keep-none = Adres eklemeden devam et
new-address-malformed = Bu adrese e-posta gönderilemez. ayse@example.com gibi bir adres girin.
new-address-not-ascii = Birçok posta sunucusu @ işaretinden önce ş veya ı gibi harfleri kabul etmez. Bu harfleri içermeyen bir adres yazın.
new-address-domain = Bu adrese geçemezsiniz. Şu alan adlarından birindeki bir adresi girin veya yöneticinize başvurun: <bdi>{ $domains }</bdi>
new-address-unchanged = Bu zaten sizin adresiniz.
undo-title = Adres değişikliği geri alınsın mı?
undo-lead = Bir <bdi>{ $operator }</bdi> hesabının adresi <bdi>{ $old }</bdi> iken <bdi>{ $new }</bdi> yapıldı. Bunu siz yapmadıysanız burada geri alın.
undo-effects =
    Hesap yeniden eski adresi kullanır. Hesaptaki bütün oturumlar kapatılır, uygulamaların erişimi sona erer ve parola artık
    çalışmaz; yeni bir parola seçersiniz. Doğrulama yöntemleri olduğu gibi kalır.
undo-submit = Bunu ben yapmadım: geri al
undo-keep = Bunu siz yaptıysanız bu sayfayı kapatın. Hiçbir şey değişmez.
undone-title = Hesap güvende
undone-lead = Hesap yeniden eski adresinizi kullanıyor. Bütün oturumlar kapatıldı ve parola artık çalışmıyor.
undone-closed =
    Hesap yeniden eski adresinizi kullanıyor ve bütün oturumlar kapatıldı. Değişikliğin yapıldığı sıralarda, başka birinin oturum
    açmasına yarayabilecek bir geçiş anahtarı eklenmiş. Bu yüzden hesap, yöneticiniz inceleyene kadar devre dışı bırakıldı.
undone-taken =
    Hesaptaki bütün oturumlar kapatıldı. Eski adresiniz artık başka bir hesaba ait olduğu için geri verilemedi; hesap devre dışı
    bırakıldı.
undone-reset = Eski adresinize bir sıfırlama bağlantısı gönderdik. 30 dakika içinde açıp yeni bir parola seçin.
undone-passkey = Bu hesabın parolası yok. Geçiş anahtarınızla oturum açın.
undone-administrator = Yöneticinizden yardım isteyin ve adresinizi başka birinin değiştirdiğini söyleyin.
undone-added = Aşağıdaki doğrulama yöntemleri, değişiklikten önceki günden bu yana eklendi. Size ait olmayanları kaldırın:

password-title = Parola değiştirme
password-upstream = Oturumu <bdi>{ $label }</bdi> üzerinden açıyorsunuz. Parolanız orada saklanır; orada değiştirebilirsiniz.
password-managed = Parolanız kurumunuzun dizininde tutulur. Parolanızı kurumunuzun bilgisayarlarında oturum açtığınız yerde değiştirin.
password-lead = Buradaki oturumunuz açık kalır. Diğer bütün oturumlarınız kapatılır; uygulamalar yeniden oturum açmanızı ister.
password-current = Mevcut parola
password-new = Yeni parola
password-new-hint = En az 15 karakter. Yalnızca sizin yan yana getireceğiniz birkaç sözcük hem akılda kalır hem de zor tahmin edilir.
password-again = Yeni parola (tekrar)
password-submit = Parolayı değiştir
password-wrong-current = Mevcut parola hatalı. Kontrol edip yeniden deneyin. Parolanız değiştirilmedi.
password-too-short = Yeni parola çok kısa. En az 15 karakterlik bir parola seçin: birkaç sözcük yeterlidir.
password-too-long = Yeni parola çok uzun. Daha kısa bir parola seçin.
password-personal = Yeni parolada adınız, kullanıcı adınız veya e-posta adresiniz geçiyor. Parolanızı tahmin etmek isteyen biri önce bunları dener. Başka bir parola seçin.
password-common = Yeni parola kolay tahmin edilir: yaygın bir parola, klavyede yan yana tuşlar veya bir yineleme. Birbiriyle ilgisiz birkaç sözcük seçin.
password-unchanged = Yeni parola mevcut parolayla aynı. Başka bir parola seçin.
password-different = Yazdığınız yeni parolalar eşleşmiyor. İkisini de yeniden yazın.
password-throttled-seconds = Çok fazla hatalı parola girildi. { $seconds } saniye bekleyip yeniden deneyin.
password-throttled-minutes = Çok fazla hatalı parola girildi. { $minutes } dakika bekleyip yeniden deneyin.
password-too-many-changes = Bu parola bir gün içinde beş kez değiştirildi. Yarın yeniden deneyin. Değişiklikleri siz yapmadıysanız oturumu kapatıp parolanızı sıfırlayın veya yöneticinize başvurun.
password-busy = Şu anda çok sayıda kişi oturum açtığı için hiçbir şey değiştirilmedi. Birkaç saniye bekleyip yeniden deneyin.

security-title = Oturum açma yöntemleri
security-none = Yalnızca parolanızla oturum açıyorsunuz. Bir doğrulama yöntemi ekleyin: birisi parolanızı öğrense bile hesabınızı korur.
security-none-link = Yalnızca parolanızla oturum açıyorsunuz. İki adımlı doğrulamayı ayarlamak için yöneticinizden bir bağlantı isteyin.
security-lead = Oturum açarken parolanıza ek olarak kullandığınız yöntemler. Tanımadığınız bir yöntem varsa kaldırın ve parolanızı değiştirin.
security-added = Eklenme: { $moment }
security-used = Son kullanım: { $moment }
security-unused = Hiç kullanılmadı
security-synced = Eşitlenmiş: diğer cihazlarınızda da bulunur
security-bound = Yalnızca bir cihazda
security-manage = Yönet
security-manage-named = Yönet: { $name }
security-add-app = Doğrulama uygulaması ekle
security-add-key = Güvenlik anahtarı veya geçiş anahtarı ekle
security-back = “Güvenlik” sayfasına dön
security-last-demanded = Hiçbir şey kaldırılmadı: hesabınız için böyle bir doğrulama yöntemi gerekiyor ve başka yönteminiz yok. Önce bir tane daha ekleyin.
security-last-passkey = Hiçbir şey kaldırılmadı: parolanız yok ve bu tek geçiş anahtarınız. Önce bir geçiş anahtarı daha ekleyin.
linked-title = Bağlı hesaplar
linked-none = Başka bir sağlayıcıdaki hesabınızla oturum açmak için onu buraya bağlayın. Bağladıktan sonra buradaki parolanız kullanılmaz.
linked-at = Bağlanma: { $moment }
linked-created = Buradaki hesabınız, bu hesapla ilk kez oturum açıldığında oluşturuldu.
linked-confirmed = Sağlayıcının son onayı: { $moment }
linked-by-administrator = Bu bağlantıyı yalnızca bir yönetici kaldırabilir.
linked-add = Bağla
linked-add-named = Bağla: { $label }
linked-remove = Bağlantıyı kaldır
linked-remove-named = Bağlantıyı kaldır: { $label }
link-title = Hesap bağlama: { $label }
link-lead-provider = Şimdi <bdi>{ $label }</bdi> üzerinden oturum açacaksınız. Döndüğünüzde iki hesabı da görürsünüz; siz onaylamadan hiçbir şey değişmez.
link-lead-directory = <bdi>{ $label }</bdi> dizinindeki kullanıcı adınızı ve parolanızı girin. Ardından iki hesabı da görürsünüz; siz onaylamadan hiçbir şey değişmez.
link-account = Kullanıcı adı veya e-posta adresi
link-password = Parola
link-check = Devam et
link-away = <bdi>{ $label }</bdi> yanıt vermediği için hiçbir hesap bağlanmadı. Birkaç saniye bekleyip yeniden deneyin.
link-denied = <bdi>{ $label }</bdi> üzerinden oturum açma iptal edildi veya reddedildi. Hiçbir hesap bağlanmadı.
link-invalid = <bdi>{ $label }</bdi> geçerli bir yanıt vermediği için hiçbir hesap bağlanmadı. Yeniden deneyin; sorun sürerse yöneticinize bildirin.
link-confirm-title = Bu hesaplar bağlansın mı?
link-account-here = Buradaki hesap
link-account-there = <bdi>{ $label }</bdi> hesabı
link-effects = Neler değişir?
link-effect-provider = Bundan sonra <bdi>{ $label }</bdi> üzerinden oturum açarsınız.
link-effect-directory = Bundan sonra <bdi>{ $label }</bdi> dizinindeki kullanıcı adınız ve parolanızla oturum açarsınız.
link-effect-password = Buradaki parolanız kaldırılır.
link-effect-profile = Adınız, e-posta adresiniz, kullanıcı adınız ve telefon numaranız <bdi>{ $label }</bdi> hesabınızdan alınır.
link-effect-groups = <bdi>{ $label }</bdi> hesabınızın grupları eklenir. Buradaki gruplarınız, rolleriniz ve doğrulama yöntemleriniz kalır.
link-effect-disabled = <bdi>{ $label }</bdi> hesabınız devre dışı bırakılır veya silinirse burada da oturum açamazsınız.
link-effect-sessions = Tüm cihazlarda oturumunuz kapatılır ve uygulama parolalarınız geçersiz olur.
link-administrator = Yöneticisiniz. <bdi>{ $label }</bdi> yanıt vermediğinde oturum açamazsınız. Burada parolası olan başka bir yönetici bulunduğundan emin olun.
link-confirm = Hesapları bağla
link-cancel = Vazgeç
link-wrong-account = Yanlış hesap mı? Vazgeçin, <bdi>{ $label }</bdi> oturumunuzu kapatın ve yeniden bağlayın.
link-refused-title = Hesaplar bağlanmadı
link-taken = <bdi>{ $label }</bdi> hesabınız burada başka bir hesaba ait. Örneğin daha önce onunla oturum açmış olabilirsiniz. Bir yöneticiden o hesabı silmesini ve iki hesabı bağlamasını (<code>sealgate user link</code>) isteyin.
link-name-taken = <bdi>{ $label }</bdi> hesabınızın e-posta adresini veya kullanıcı adını burada başka bir hesap kullanıyor. Bir yöneticiden o hesabı değiştirmesini veya silmesini isteyin.
link-nameless = Hesabınızın ne doğrulanmış bir e-posta adresi ne de kullanıcı adı olurdu. Yöneticinizden bunlardan birini eklemesini isteyin.
link-has-source = Hesabınız zaten <bdi>{ $label }</bdi> hesabınıza bağlı. Bir hesabın tek bağlantısı olabilir. Önce bu bağlantıyı kaldırın veya bir yöneticiden kaldırmasını isteyin.
link-done-title = Hesaplar bağlandı
link-done-text = Tüm oturumlarınız kapatıldı. Bundan sonra <bdi>{ $label }</bdi> hesabınızla oturum açın.
unlink-title = Bağlantıyı kaldırma
unlink-lead = Buradaki hesabınız artık <bdi>{ $label }</bdi> hesabınıza bağlı olmayacak.
unlink-effect-sign-in = Artık <bdi>{ $label }</bdi> ile oturum açamazsınız. Burada parolanız olmadığı için geçiş anahtarınızla oturum açarsınız.
unlink-effect-groups = <bdi>{ $label }</bdi> hesabınızın grupları kaldırılır. Buradaki gruplarınız, rolleriniz ve doğrulama yöntemleriniz kalır.
unlink-confirm = Bağlantıyı kaldır
unlink-refused-title = Bağlantı kaldırılmadı
unlink-no-way-left = Burada parolanız da geçiş anahtarınız da olmadığı için bağlantı olmadan oturum açamazsınız. Önce bir geçiş anahtarı ekleyin veya bir yöneticiden bağlantıyı kaldırmasını ve size bir parola vermesini isteyin.
unlink-only-administrator = Bu bağlantıyı yalnızca bir yönetici kaldırabilir. Bağlantıyı bir yönetici veya ilk oturum açma oluşturmuştur ya da bu hizmetin ayarları böyledir.
unlink-done-title = Bağlantı kaldırıldı
unlink-done-text = Tüm oturumlarınız kapatıldı. Artık <bdi>{ $label }</bdi> ile oturum açamazsınız. Geçiş anahtarınızla oturum açın.
factor-settings-title = Doğrulama yöntemi: { $kind }
factor-settings-name = Ad
factor-settings-rename = Yeni ad
factor-settings-remove-title = Kaldırma
factor-settings-remove-hint = Artık oturum açmak için kullanılamaz. Açık oturumlarınız açık kalır.
factor-settings-remove-last = Bu tek doğrulama yönteminiz. Kaldırırsanız yalnızca parolanızla oturum açarsınız, kurtarma kodlarınız da silinir.
factor-settings-remove = Kaldır
recovery-title = Kurtarma kodları
recovery-unavailable = Kurtarma kodları, kaybettiğiniz bir doğrulama yönteminin yerine geçer. Önce bir doğrulama yöntemi ekleyin.
recovery-none = Kurtarma kodunuz yok. Kod oluşturup güvenli bir yerde saklayın: kodlar olmadan doğrulama yönteminizi kaybederseniz size yalnızca bir yönetici yardım edebilir.
recovery-left = { $count } kurtarma kodunuz kaldı.
recovery-few = Bitmeden yenilerini oluşturun.
recovery-made = Oluşturulma: { $moment }
recovery-make = Kurtarma kodu oluştur
recovery-remake = Yeni kodlar oluştur
recovery-used-title = Kurtarma kodu kullandınız
recovery-used-lead = <bdi>{ $account }</bdi> olarak oturum açtınız. Bu kod bir daha kullanılamaz.
recovery-used-lost = Uygulamanızı veya anahtarınızı kaybettiyseniz, başkası onunla oturum açamasın diye “Güvenlik” sayfasında kaldırıp yenisini ekleyin.
recovery-ask = On kod yalnızca bir kez gösterilecek. Kodları saklayacağınız yeri (parola yöneticisi veya kâğıt) önceden hazırlayın.
recovery-ask-replaces = Şu anki kodlarınız geçersiz olacak.

sessions-title = Cihazlar ve erişim
sessions-lead = Şu anda hesabınızı kullanabilen her şey aşağıdadır. Tanımadığınız bir kayıt varsa sonlandırın ve parolanızı değiştirin.
sessions-this = Bu tarayıcı
sessions-signed-in-with = Oturum açma yolu: { $methods }
method-password = Parola
method-upstream = Başka bir sağlayıcıdaki hesap
method-upstream-named = <bdi>{ $name }</bdi> hesabı
method-recovery = Kurtarma kodu
sessions-kept-until = Oturumun sona ereceği tarih: { $moment }
sessions-end = Oturumu kapat
sessions-end-named = Oturumu kapat: { $device }, { $address }
sessions-end-others = Diğer bütün oturumları kapat
sessions-end-others-hint = Bağlı uygulamaların hesabınıza erişimi de sona erer; uygulamalarda yeniden oturum açabilirsiniz. Uygulama parolaları ve giriş bilgileri kalır. Bu tarayıcıyı başkası kullandıysa da işe yarar.
sessions-everything = Her şeyi sonlandır
sessions-everything-hint = Bu tarayıcı dahil bütün tarayıcılarda oturumunuz kapanır. Bağlı uygulamaların hepsi erişimini kaybeder, uygulama parolalarının hepsi geçersiz olur. Giriş bilgileri kalır; bunlar yalnızca oturumunuz açıkken kullanılır.
access-column = Erişim
access-since = Başlangıç
access-used = Son kullanım
access-from = Nereden
access-end = Sonlandırma
access-session = Tarayıcı
access-app-session = Açık uygulama
access-client = Bağlı uygulama
access-app-login = Uygulamanın kendisindeki oturum da kapanır.
access-consent = İzin verilmiş, şu anda erişimi yok
access-offline = Siz yokken de erişebilir
access-for = Uygulama: <bdi>{ $app }</bdi>
access-refused = Uygulama bu kullanıcı adını veya parolayı kabul etmedi.
access-place-in = <bdi>{ $address }</bdi>, { $device }
access-end-app-session-named = Oturumu kapat: { $app }, { $device }, { $address }
sessions-only = Başka hiçbir yerde oturumunuz açık değil.
sessions-lasting = Son eklenenler
sessions-lasting-hint = Bunlar son 30 günde eklendi ve diğer oturumlar kapatıldıktan sonra da çalışmaya devam eder. Kendiniz eklemediklerinizi kaldırın.
sessions-app-password = Uygulama parolası
sessions-remove = Kaldır
sessions-remove-named = Kaldır: { $name }

applications-title = Erişim izni olan uygulamalar
applications-lead = Bu uygulamaların hesabınıza erişmesine izin verdiniz.
applications-none = Henüz hiçbir uygulamaya erişim izni vermediniz. Uygulamalar, ilk kez oturum açtığınızda izninizi ister.
applications-open = Uygulamalarınızı açın
applications-since = İzin tarihi: { $moment }
applications-sees = Görebildikleri:
applications-uses = Sizin adınıza kullanabildikleri:
applications-withdraw = Erişimi kaldır
applications-withdraw-named = Erişimi kaldır: { $client }
applications-effect = Erişimini kaldırdığınız uygulama sizden yeniden izin istemek zorundadır. Daha önce kaydettiği bilgiler kendisinde kalır.

home-title = Uygulamalarınız
home-passkey = Bir dahaki sefere parola yerine bu cihazın parmak izi, yüz tanıma veya ekran kilidiyle oturum açın.
home-passkey-add = Geçiş anahtarı ekle
home-passkey-later = Şimdi değil
home-maintenance = Bakımda
home-login-missing = Kullanıcı adınızı ve parolanızı bir kez girin
home-login-refused = Kullanıcı adınız veya parolanız kabul edilmedi. Yeniden girin.
home-none = Henüz erişebileceğiniz bir uygulama yok. Eksik olan varsa yöneticinize danışın.
home-search = Uygulamalarda arayın
home-search-submit = Ara
home-search-none = “<bdi>{ $text }</bdi>” ile eşleşen uygulama yok.
home-search-all = Tüm uygulamaları göster
home-unavailable = Şu anda ulaşılamıyor
home-add = Uygulama ekleyin

app-passwords-title = Uygulama parolaları
app-passwords-lead = git, takvim veya ağ sürücüsü gibi oturum açma sayfası gösteremeyen programlar içindir. Her parola tek bir uygulamayı açar; istediğiniz zaman iptal edebilirsiniz. Kendi parolanızı değiştirirseniz hepsi geçersiz olur.
app-passwords-full = Oluşturabileceğiniz en fazla uygulama parolası sayısına ulaştınız. Artık kullanmadığınız bir parolayı iptal edip yeniden deneyin.
app-passwords-nowhere = Uygulama parolası kabul eden bir uygulama yok.
app-password-once = Yeni uygulama parolanız aşağıdadır. Şimdi kopyalayın; bir daha gösterilmeyecek.
app-password-use = Bu parolayı, <bdi>{ $app }</bdi> için kullandığınız programa girin. Kullanıcı adı: <bdi>{ $user }</bdi>
app-password-use-header = <bdi>{ $app }</bdi> için kullandığınız programda <code>{ $header }</code> adlı bir HTTP üst bilgisi (header) ekleyin. Değerine kullanıcı adınızı (<bdi>{ $user }</bdi>), iki nokta (:) ve bu parolayı arada boşluk bırakmadan yazın.
app-password-made = Uygulama: <bdi>{ $app }</bdi>. Oluşturulma: { $moment }
app-password-used = Son kullanım: { $moment }
app-password-unused = Hiç kullanılmadı
app-password-revoke = İptal et
app-password-revoke-named = İptal et: { $name }
app-password-new = Uygulama parolası oluştur
app-password-app = Uygulama
app-password-name = Ad
app-password-name-hint = Daha sonra tanıyabileceğiniz bir ad, örneğin “dizüstündeki git”.
app-password-name-wrong = 1–60 karakterlik bir ad yazın.
app-password-weak-two = Yeni bir tane oluşturmak için iki adımlı doğrulamayla oturum açmanız gerekir.
app-password-weak-resistant = Yeni bir tane oluşturmak için güvenlik anahtarı veya geçiş anahtarıyla oturum açmanız gerekir.
app-password-make = Parola oluştur

app-logins-title = Uygulama giriş bilgileri
app-logins-lead = Bazı uygulamaların kendi giriş formu vardır. Böyle bir uygulamadaki kullanıcı adınızı ve parolanızı bir kez girin; bundan sonra oturumunuzu sizin yerinize <bdi>{ $operator }</bdi> açar. Parola şifrelenerek saklanır ve bir daha gösterilmez.
app-logins-all = Tüm uygulamalar
app-logins-nowhere = Sizden giriş bilgisi isteyen bir uygulama yok.
app-logins-unavailable = Şu anda parola saklanamıyor. Yöneticinize başvurun.
app-logins-full = Giriş bilgisi saklayabileceğiniz en fazla uygulama sayısına ulaştınız. Artık gerekmeyenleri silip yeniden deneyin.
app-logins-open = <bdi>{ $app }</bdi> uygulamasını aç
app-logins-form = Giriş bilgileri: <bdi>{ $app }</bdi>
app-logins-username = Uygulamadaki kullanıcı adı
app-logins-username-wrong = 1–200 karakterlik bir kullanıcı adı yazın.
app-logins-password = Uygulamadaki parola
app-logins-password-hint = <bdi>{ $operator }</bdi> parolanızı değil, <bdi>{ $app }</bdi> uygulamasındaki parolanızı yazın.
app-logins-password-wrong = En fazla 1.000 karakterlik bir parola yazın.
app-logins-user = Kullanıcı adı: <bdi>{ $name }</bdi>
app-logins-changed = Son değişiklik: { $moment }
app-logins-none = Kayıtlı giriş bilgisi yok
app-logins-refused = Uygulama bu kullanıcı adını veya parolayı kabul etmedi. Bilgileri yeniden girin.
app-logins-enter = Gir
app-logins-enter-named = Giriş bilgilerini gir: { $app }
app-logins-change = Değiştir
app-logins-change-named = Giriş bilgilerini değiştir: { $app }
app-logins-remove = Sil
app-logins-remove-named = Giriş bilgilerini sil: { $app }
user-app-login-hint = Bu kullanıcının bir uygulamada oturum açacağı kullanıcı adını ve parolayı kaydedin. Önceki bilgilerin yerine geçer. Kayıtlı parolalar hiçbir sayfada gösterilmez.
user-app-logins-full = Giriş bilgisi saklanabilecek en fazla uygulama sayısına ulaşıldı. Kullanıcının artık ihtiyaç duymadıklarını silip yeniden deneyin.
app-logins-weak-two = Giriş bilgisi kaydetmek için iki adımlı doğrulamayla oturum açmanız gerekir.
app-logins-weak-resistant = Giriş bilgisi kaydetmek için güvenlik anahtarı veya geçiş anahtarıyla oturum açmanız gerekir.

## Konsol

menu-console = Konsol
menu-clients = İstemciler
menu-users = Kullanıcılar
menu-keys = İmza anahtarları
menu-apps = Uygulamalar
menu-settings = Ayarlar
apps-lead = Sealgate’in koruduğu uygulamalar, yapılandırma dosyasındaki adlarıyla. Her sunucu birkaç saniyede bir kontrol edilir.
apps-none = Yapılandırma dosyasında uygulama yok.
apps-address = Adres
apps-servers = Sunucular
server-up = Çalışıyor
server-down = Çalışmıyor
server-unknown = Henüz kontrol edilmedi
settings-provider = Kimlik sağlayıcısı
copy-named = Kopyala: { $name }
endpoint-discovery = Keşif belgesi (discovery)
endpoint-authorize = Yetkilendirme uç noktası (authorization)
endpoint-token = Belirteç uç noktası (token)
endpoint-userinfo = Kullanıcı bilgisi uç noktası (UserInfo)
endpoint-keys = Açık anahtarlar (JWKS)
endpoint-logout = Oturum kapatma uç noktası (logout)
client-connect = Bağlantı bilgileri
client-sections = Bu sayfanın bölümleri
copy = Kopyala
copied = Kopyalandı
next-page = Sonraki sayfa
state-disabled = Devre dışı
state-unapproved = Onaylanmamış
state-no-owner = Sahipsiz
state-configured = Yapılandırma dosyasında
form-problem = Hiçbir şey kaydedilmedi. İşaretli alanları düzeltip formu yeniden gönderin.
error-console-title = Konsola erişim yetkiniz yok
error-console-text = Hesabınızın konsolun bu bölümünü kullanma yetkisi yok. Yöneticinize danışın veya başka bir hesapla oturum açın.

done-client = İstemci kaydedildi.
done-client-deleted = İstemci silindi; bütün erişimi sonlandırıldı.
done-client-state = İstemci güncellendi.
done-shown-before = Bu bilgi bir kez gösterildi, yeniden gösterilemez. Saklamadıysanız yenisini oluşturun.
done-user = Değişiklikler kaydedildi.
done-user-revoked = Bu kullanıcının bütün oturumları ve belirteçleri sonlandırıldı.
done-user-invited = Davet gönderildi.
done-users-invited = Davetler gönderildi.
done-user-deleted = Kullanıcı silindi.
done-users = Seçilen kullanıcılar değiştirildi.
done-user-reset-link-sent = Yeni parola belirleme bağlantısı gönderildi.
done-user-invitation-withdrawn = Davet geri alındı. Yeni bir davet gönderene kadar bu hesapla kimse oturum açamaz.

clients-title = İstemciler
clients-lead = İstemciler, kullanıcıların buradan oturum açtığı uygulamalardır.
clients-show-without-owner = Sahibi olmayan istemcileri göster
clients-show-all = Bütün istemcileri göster
clients-none = Henüz kayıtlı bir istemci yok.
client-new = İstemci kaydet
client-new-title = Yeni istemci
client-register = Kaydet
client-name = Ad
client-name-hint = Kullanıcılar bu adı oturum açarken ve izin verirken görür.
client-name-wrong = 1 ile 200 karakter arasında bir ad yazın; görünmeyen karakter kullanmayın.
client-description = Açıklama (isteğe bağlı)
client-description-wrong = Tek satırda en fazla 500 karakter yazın; görünmeyen karakter kullanmayın.
client-type = Tür
client-type-confidential = Gizli anahtarlı (confidential)
client-type-confidential-hint = Sunucuda çalışır ve gizli anahtarını saklayabilir.
client-type-public = Gizli anahtarsız (public)
client-type-public-hint = Tarayıcıda veya kullanıcıların cihazlarında çalışır. Gizli anahtarı yoktur, PKCE kullanır.
client-redirect-uris = Yönlendirme adresleri
client-redirect-uris-hint = Her satıra bir adres yazın, istemcinin gönderdiğiyle birebir aynı olsun: https veya localhost, 127.0.0.1, [::1] üzerinde http.
client-logout-uris = Oturum kapatma sonrası yönlendirme adresleri (isteğe bağlı)
client-logout-uris-hint = Her satıra bir adres; aynı kurallar geçerlidir.
client-uris-wrong = En az 1, en fazla 20 yönlendirme adresi yazın.
client-scopes = openid dışında isteyebileceği kapsamlar (scope)
scope-profile = Ad ve profil fotoğrafı
scope-email = E-posta adresi
scope-phone = Telefon numarası
scope-offline-access = Kullanıcı yokken de erişim için yenileme belirteci
client-default-scope = Kapsam belirtmeyen isteklerin kapsamı (isteğe bağlı)
client-default-scope-hint = scope parametresi göndermeyen istemciler için, örneğin: openid profile email. Boş bırakılırsa bu istekler reddedilir.
client-default-scope-wrong = openid ile yukarıda seçili kapsamları, aralarına boşluk koyarak yazın.
client-auth-method = İstemci kimlik doğrulama yöntemi
client-auth-basic = HTTP Basic (client_secret_basic)
client-auth-post = İstek gövdesinde (client_secret_post)
client-auth-hint = Gizli anahtarsız istemcilerde kullanılmaz.
uri-long = Satır { $line }: yönlendirme adresi en fazla 2000 karakter olabilir.
uri-characters = Satır { $line }: yönlendirme adresinde boşluk, tırnak, ters eğik çizgi ve ASCII dışı karakter bulunamaz.
uri-absolute = Satır { $line }: adresin tamamını yazın, örneğin https://app.example.com/callback.
uri-wildcard = Satır { $line }: yönlendirme adresinde joker karakter bulunamaz. Her adresi ayrı bir satıra yazın.
uri-fragment = Satır { $line }: yönlendirme adresinde # bulunamaz. # işaretini ve sonrasını silin.
uri-user = Satır { $line }: yönlendirme adresinde kullanıcı adı bulunamaz. @ işaretini ve öncesindekini silin.
uri-scheme = Satır { $line }: https kullanın; http yalnızca localhost, 127.0.0.1 ve [::1] için kullanılabilir.
uri-host = Satır { $line }: sunucu adı geçerli değil. Yalnızca harf, rakam, nokta ve tire kullanın.
uri-own-host = Satır { $line }: bu sunucudaki bir adresi yalnızca yöneticiler kaydedebilir.

client-id = İstemci kimliği (client ID)
client-issuer = Sağlayıcı adresi (issuer)
client-since = Kayıt tarihi
client-service = Kullanıcısız erişim
client-service-groups = Kullanıcısız erişimdeki gruplar
client-token-limit = Belirteç uç noktasının istek sınırı
client-token-limit-is = Dakikada { $limit } istek
client-settings = Ayarlar
client-scopes-allowed = İsteyebileceği kapsamlar (scope)
client-configured = Bu istemci sunucunun yapılandırma dosyasında tanımlı ve yalnızca orada değiştirilebilir. Değişiklik, sunucu yapılandırmayı yeniden yükleyince geçerli olur.
client-secret-once = İstemcinin gizli anahtarı. Şimdi kopyalayın; bir daha gösterilmeyecek.
client-secrets = Gizli anahtarlar
client-secret-since = Oluşturulma: { $made }
client-secret-until = Oluşturulma: { $made }; geçerlilik sonu: { $end }
client-overlap = Yeni gizli anahtar oluşturulduğunda öncekinin durumu
client-overlap-none = hemen geçersiz olur
client-overlap-hour = bir saat daha geçerli kalır
client-overlap-day = bir gün daha geçerli kalır
client-overlap-week = bir hafta daha geçerli kalır
client-rotate = Yeni gizli anahtar oluştur
client-secrets-full = Şu anda iki gizli anahtar geçerli; daha fazlası olamaz. Birini kaldırın, birinin süresi dolana kadar bekleyin ya da ikisini de sonlandırmak için “hemen geçersiz olur” seçeneğini kullanın.
client-secret-add = İkinci gizli anahtar ekle
client-secret-remove = Kaldır
client-secret-lifetime = İkinci gizli anahtarın geçerliliği
client-secret-forever = kaldırılana kadar
client-secret-days = { $days } gün
client-keys = Açık anahtarlar
client-keys-hint = Açık anahtarı olan bir istemci, isteklerini özel anahtarıyla imzalar (private_key_jwt) ve gizli anahtara gerek duymaz. Açık anahtar belirlerseniz tüm gizli anahtarlar hemen geçersiz olur.
client-keys-in-use = İstemci, isteklerini özel anahtarıyla imzalıyor (private_key_jwt); gizli anahtarı yok.
client-keys-label = Açık anahtarlar: JWK kümesi, tek bir JWK ya da PEM biçiminde açık anahtar
client-keys-save = Açık anahtarları belirle
client-keys-unusable = Bu anahtarlar kullanılamaz. 1 ile 10 arasında açık anahtar girin: en az 2048 bit RSA, P-256 üzerinde EC ya da Ed25519. Birden fazla anahtar varsa her birinin ayrı bir kid değeri olmalıdır.
client-keys-uri = Anahtar kümesi
client-keys-workload = İş yükü
client-use-secret = Bunun yerine gizli anahtar kullan
client-introspection = Belirteç sorgulama
client-introspection-own = Kendi belirteçleri
client-logout = Arka kanaldan oturum kapatma
client-logout-hint = Bir kullanıcının oturumu sona erdiğinde Sealgate bu adrese bir oturum kapatma belirteci gönderir; böylece istemci kendi oturumunu da kapatabilir.
client-logout-uri = Oturum kapatma belirteçlerinin adresi
client-logout-uri-hint = https veya localhost üzerinde http. Boş bırakılırsa belirteç gönderilmez.
client-logout-uri-wrong = Parçasız bir https adresi veya localhost üzerinde bir http adresi girin.
client-logout-session = İstemci “sid” değerini gerektiriyor
client-level = Gereken oturum açma
client-level-choice = Kullanıcılar nasıl oturum açmalı
client-level-hint = İstemci yalnızca böyle oturum açmış kullanıcılar için belirteç alır ve bunları sonradan yeniler. İstemcinin kendi istekleri daha güçlü bir oturum isteyebilir, daha zayıfını isteyemez.
client-level-one = 1: parola
client-level-two = 2: parola ve doğrulama yöntemi
client-level-three = 3: geçiş anahtarı veya parola ve güvenlik anahtarı
client-approval = Onay
client-approved = Onaylı: istemci listesi olmayan bütün uygulamalar belirteçlerini kabul eder.
client-unapproved = Onaylanmamış: belirteçlerini yalnızca bu istemciyi listeleyen uygulamalar kabul eder.
client-approval-hint = Geliştirici veya istemcinin kendisi adı, ana sayfayı ya da oturum açma adresini değiştirir, yönlendirme adresi ya da kapsam ekler veya istemciyi gizli anahtarsız yaparsa onay geri alınır.
client-owner = Sahibi
client-changed = Siz bu sayfayı açtıktan sonra istemci değiştiği için hiçbir şey kaydedilmedi. Güncel değerleri kontrol edip yeniden deneyin. Değişenler:
client-part-logout-uris = Oturum kapatma sonrası yönlendirme adresleri
client-part-links = Ana sayfa, oturum açma adresi, kullanım koşulları veya gizlilik politikası
client-part-other = Diğer ayarlar
client-approve = Onayla
client-revoke-approval = Onayı geri al
client-disabled-by-administrator = Bu istemciyi bir yönetici devre dışı bıraktı. Yalnızca bir yönetici yeniden etkinleştirebilir.
client-end = Devre dışı bırakma ve silme
client-end-hint = Devre dışı bırakılan istemci her yerde reddedilir ve belirteçleri hemen geçersiz olur. Silinen istemci geri getirilemez.
client-disable = Devre dışı bırak
client-enable = Etkinleştir
client-delete = Sil
client-snippets = Kullanıma hazır kod

client-test-title = Oturum açmayı dene
client-test-link = Oturum açmayı dene
client-test-lead = <bdi>{ $client }</bdi> istemcisiyle oturum açın ve hakkınızda neler öğreneceğini görün.
client-test-off = Oturum açma işlemi konsola geri döner; bunun için istemciye bir yönlendirme adresi daha gerekir: <code>{ $uri }</code>. Denerken açın, gerçek kullanımda kapatın.
client-test-on = İstemcide <code>{ $uri }</code> yönlendirme adresi kayıtlı. İşiniz bitince kapatın.
client-test-switch-on = Aç
client-test-switch-off = Kapat
client-test-configured = Oturum açma işlemi konsola geri döner; bunun için istemciye bir yönlendirme adresi daha gerekir: <code>{ $uri }</code>. Bu istemci sunucunun yapılandırma dosyasında tanımlı olduğundan adres oraya eklenmelidir.
client-test-start = Oturum aç
client-test-back = İstemciye dön
client-test-succeeded = Çalışıyor. Hiçbir belirteç saklanmadı; istemcinin alacağı bilgiler aşağıda.
client-test-id-token = Kimlik belirteci (ID token)
client-test-access-token = Erişim belirteci (access token)
client-test-userinfo = UserInfo
client-test-refused = Sağlayıcı <code>{ $error }</code> hatasıyla yanıt verdi. İstemcinin ayarlarını değiştirin veya yeniden deneyip erişime izin verin.
client-test-unknown = Bu yanıt buradan başlatılan bir denemeye ait değil veya daha önce kullanılmış. Yeniden başlayın.

users-title = Kullanıcılar
users-find = E-posta adresi, kullanıcı adı veya adla ara
users-find-hint = Herhangi bir bölümünü yazmanız yeterli. Birden çok sözcüğün sırası önemli değildir.
user-column-person = Kullanıcı
user-state = Durum
user-signed-in = Son oturum açma
user-role-admin-short = Yönetici
user-role-auditor-short = Denetçi
user-role-manager-short = Kullanıcı sorumlusu
user-role-developer-short = Geliştirici
state-enabled = Etkin
state-no-password = Parola yok
users-none = Kullanıcı bulunamadı.
users-filter = Ara ve filtrele
users-filter-all = Hepsi
users-filter-group = Grup
users-filter-none = Yok
users-filter-local = Burada tutulanlar
users-filter-apply = Uygula
users-filter-clear = Bütün kullanıcıları göster
users-source = Kaynak
users-order = Sırala
users-order-name = Ada göre
users-order-address = E-posta adresine göre
users-order-signed-in = Son oturum açmaya göre
users-order-created = Eklenme tarihine göre
users-sorted = Kullanıcılar: { $first }–{ $last }, toplam { $total }
users-pages = Liste sayfaları
users-first-read = Denetim kaydı hâlâ okunuyor. Bazı son oturum açma zamanları henüz görünmüyor; birkaç saniye sonra sayfayı yenileyin.
users-full = Liste yalnızca ilk { $most } kullanıcıyı içerir. Tam e-posta adresi veya kullanıcı adı her kullanıcıyı bulur.
previous-page = Önceki sayfa
bulk-select = Seç: { $name }
bulk-selected = Seçilen kullanıcılar
bulk-do = İşlem
bulk-group = Grup (eklemek veya çıkarmak için)
bulk-continue = Devam et
bulk-back = Geri
bulk-add = Gruba ekle
bulk-remove = Gruptan çıkar
bulk-invite = Yeniden davet et
bulk-users =
    { $count ->
        [one] 1 kullanıcı değişecek
       *[other] { $count } kullanıcı değişecek
    }
bulk-skipped = Değişmeyecekler
bulk-nothing = Seçilen kullanıcılarda değişecek bir şey yok.
bulk-no-users = Önce en az bir kullanıcı seçin.
bulk-too-many = Bir seferde en fazla { $most } kullanıcı seçin.
bulk-group-wrong = Bir grup adı girin: en fazla 100 karakter, virgülsüz.
bulk-own = Bu sizsiniz.
bulk-unchanged = Değişecek bir şey yok.
bulk-directory = Bu üyeliği dizin yönetiyor.
bulk-too-many-groups = En fazla sayıda gruba üye.
bulk-has-credential = Zaten oturum açabiliyor.
bulk-cannot-invite = Devre dışı veya e-posta adresi yok.
bulk-unknown = Bu e-posta adresine veya kullanıcı adına sahip kimse yok.
bulk-deleted = Kullanıcı bu arada silindi.
bulk-refused = Kullanıcı bu arada değiştiği için işlem yapılamıyor.
bulk-failed = Sunucu hatası nedeniyle değiştirilmedi. Yeniden deneyin.
bulk-result-title = Değişikliğin sonucu
bulk-result-lead = Bazı kullanıcılar değiştirilmedi.
bulk-result-done = Değiştirilen kullanıcı sayısı: { $count }
bulk-disable-title = Bu kullanıcılar devre dışı bırakılsın mı?
bulk-disable-effect = Bütün tarayıcı ve uygulamalardaki oturumları hemen kapanır; bir yönetici etkinleştirene kadar yeniden oturum açamazlar.
bulk-enable-title = Bu kullanıcılar etkinleştirilsin mi?
bulk-enable-effect = Yeniden oturum açabilirler.
bulk-add-title = Bu kullanıcılar şu gruba eklensin mi: <bdi>{ $group }</bdi>
bulk-add-effect = Grubun erişimini kazanırlar.
bulk-add-admin = Bu grubun üyeleri, diğer hesaplar dahil konsoldaki her şeyi görüp değiştirebilir.
bulk-add-auditor = Bu grubun üyeleri, diğer hesaplar dahil konsoldaki her şeyi görebilir.
bulk-add-manager = Bu grubun üyeleri konsolda başka grupların kullanıcılarını yönetebilir.
bulk-add-developer = Bu grubun üyeleri konsolda istemci kaydedebilir.
bulk-remove-title = Bu kullanıcılar şu gruptan çıkarılsın mı: <bdi>{ $group }</bdi>
bulk-remove-effect = Yalnızca bu grubun sağladığı erişimi hemen kaybederler.
bulk-revoke-title = Bu kullanıcıların tüm oturumları ve erişimleri sonlandırılsın mı?
bulk-revoke-effect = Bütün tarayıcı ve uygulamalardaki oturumları hemen kapanır; yeniden oturum açmaları gerekir.
bulk-invite-title = Bu kullanıcılar yeniden davet edilsin mi?
bulk-invite-effect = Her birine e-postayla yeni bir bağlantı gider. Önceki bağlantılar geçersiz olur.
groups-title = Gruplar
groups-lead = Gruplar uygulamalara erişim ve rol verir. Bir grup, üyesi olduğu veya yapılandırma dosyasında adı geçtiği sürece vardır.
groups-find = Ada göre ara
groups-find-submit = Ara
groups-none = Henüz grup yok.
groups-none-found = Grup bulunamadı.
group-title = Grup: { $name }
group-name = Ad
group-members = Üyeler
group-members-none = Bu grupta kimse yok.
group-uses = Kurallar
group-uses-none = Yapılandırma dosyasında bu grubun adı geçmiyor.
group-new = Grup oluştur veya bir gruba kullanıcı ekle
group-new-hint = Uygulamalar bu adı görür.
group-who = Kullanıcılar
group-who-hint = Her satıra bir e-posta adresi veya kullanıcı adı; en fazla 100.
group-add = Kullanıcı ekle
group-open = Aç
group-open-user = Aç: { $name }
group-change = Yeniden adlandır veya sil
group-directory = Dizinin yönettiği üyelikler buradan değişmez.
group-own-role = Konsoldaki kendi rolünüzü kaybedersiniz. Başka bir yöneticiye başvurun.
group-to = Yeni ad
group-to-hint = En fazla 100 karakter, virgülsüz. Bu adda bir grup varsa üyeler ona katılır.
group-rename = Yeniden adlandır
group-delete = Grubu sil
group-rename-title = Grup yeniden adlandırılsın mı? <bdi>{ $name }</bdi> → <bdi>{ $to }</bdi>
group-rename-effect = Yeni ada geçecek üye sayısı: { $total }
group-delete-title = Grup silinsin mi: <bdi>{ $name }</bdi>
group-delete-effect = Gruptan çıkacak üye sayısı: { $total }. Üyeler, yalnızca bu grubun sağladığı erişimi hemen kaybeder.
group-named = Yapılandırma dosyasında bu grubun adı geçiyor. Dosyayı değiştirene kadar şu kurallar üyeler için geçerli olmaz:
group-named-new = Yapılandırma dosyasında yeni ad geçiyor. Şu kurallar üyeler için hemen geçerli olur:
group-use-rule = <bdi>{ $app }</bdi>: <code>{ $path }</code>
group-use-methods = <bdi>{ $app }</bdi>: <code>{ $methods } { $path }</code>
group-use-maintenance = <bdi>{ $app }</bdi>: bakım sırasında kullanılabilir
group-use-account = <bdi>{ $app }</bdi>: uygulamada ayrı bir hesap
group-use-admins = Konsol: üyeler yöneticidir
group-use-auditors = Konsol: üyeler denetçidir
group-use-managers = Konsol: üyeler kullanıcı sorumlusudur
group-use-managed = Konsol: üyeleri <bdi>{ $group }</bdi> grubunun üyeleri yönetir
group-use-developers = Konsol: üyeler geliştiricidir
group-use-factors = Üyeler için iki adımlı doğrulama zorunludur
user-new = Kullanıcı ekle
invite-several = Birden çok kullanıcı davet et
invite-title = Birden çok kullanıcı davet et
invite-users = Kullanıcılar
invite-users-hint = Her satıra bir kullanıcı, en fazla 100: ad ile adres arasında virgül, noktalı virgül veya sekme olsun; örneğin: Ayşe Yılmaz, ayse@example.com. E-posta programından kopyalanan satırlar da olur.
invite-hint = Henüz bir şey gönderilmez. Sonraki sayfa kullanıcıları listeler.
invite-problem = Kimse davet edilmedi. Formu düzeltip yeniden gönderin.
invite-empty = En az bir kullanıcı girin.
invite-too-many = En fazla { $most } kullanıcı girin.
invite-address-wrong = { $line }. satır: e-posta adresi eksik veya geçersiz.
invite-name-wrong = { $line }. satır: ad eksik, çok uzun veya görünmeyen karakterler içeriyor.
invite-taken = { $line }. satır: bu adres bir kullanıcıya ait.
invite-repeated = { $line }. satır: bu adres { $first }. satırda da var.
invite-groups-wrong = Gruplar: her satıra bir grup yazın; virgülsüz ve en fazla 100 karakter.
invite-not-now = E-posta kuyruğunda bu davetlere yer yok ya da başka bir yönetici bu kullanıcılardan birini az önce ekledi. Biraz bekleyip yeniden deneyin.
invite-confirm-title = Bu kullanıcılar davet edilsin mi?
invite-effect = Her birine e-postayla 7 gün geçerli bir bağlantı gider; parolasını veya geçiş anahtarını kendisi seçer.
invite-count =
    { $count ->
        [one] 1 kullanıcı davet edilecek
       *[other] { $count } kullanıcı davet edilecek
    }
invite-app = Ardından gidilecek uygulama
invite-send = Davetleri gönder
user-new-title = Yeni kullanıcı
user-add = Ekle
user-email-hint = Kullanıcı adı olan bir kullanıcının adresi olmayabilir.
user-email-hint-invited = Davet için adres gerekir. Oluşturulan bir parolayla eklenen kullanıcının yalnızca kullanıcı adı olabilir.
user-email-wrong = ad@example.com gibi bir adres girin.
user-email-taken = Bu adres başka bir kullanıcıya ait. Kullanıcıyı listede arayın.
user-username = Kullanıcı adı (isteğe bağlı)
user-username-hint = a–z harfleri, rakam, nokta, tire ve alt çizgi; ilk karakter harf olmalıdır. Uygulamalar kullanıcıyı bu adla tanıdığı için sonradan buradan değiştirilemez.
user-username-wrong = a–z harfleri, rakam, nokta, tire ve alt çizgiden oluşan 1–64 karakterlik bir ad yazın; ilk karakter harf, son karakter harf veya rakam olmalıdır.
user-username-taken = Bu kullanıcı adı başka bir kullanıcıya ait. Başka bir ad seçin.
user-groups = Gruplar
user-groups-hint = Her satıra bir grup yazın; virgülsüz ve en fazla 100 karakter. Uygulamalar bu grupları görür.
user-roles = Konsol rolü
user-role-developer = Geliştirici: istemci kaydeder
user-role-auditor = Denetçi: her şeyi görür, hiçbir şeyi değiştirmez
user-role-admin = Yönetici: her şeyi görür ve değiştirir
user-own-role = Bu rolü kendinizden kaldıramazsınız. Başka bir yöneticiye başvurun.
user-password-made = Kullanıcı için bir parola oluşturulur. Parola, sonraki sayfada yalnızca bir kez gösterilir.
user-invite = Davet gönder
user-invite-hint = Kullanıcıya e-postayla 7 gün geçerli bir bağlantı gider; parolasını veya geçiş anahtarını kendisi seçer. Parola iletmeniz gerekmez.
user-invite-app = Ardından gidilecek uygulama (isteğe bağlı)
user-invite-app-none = Yok: uygulamalar sayfası
user-add-password = Oluşturulan bir parolayla ekle
user-invitation = Davet
user-invited-short = Davet edildi
user-invitation-expired-short = Davetin süresi doldu
user-invitation-open = Gönderildi: { $sent }. Son geçerlilik: { $until }.
user-invitation-expired = Gönderildi: { $sent }. Süresi doldu.
user-invitation-accepted = Kabul edildi: { $moment }.
user-invitation-none = Bu kullanıcının parolası, geçiş anahtarı veya geçerli bir daveti yok.
user-invitation-resend = Yeni bağlantı gönder
user-invitation-resend-hint = Daha önce gönderilen bağlantı geçersiz olur.
user-invitation-withdraw = Daveti geri al
user-password-once = Yeni parola aşağıdadır. Kullanıcıya şimdi iletin; bir daha gösterilmeyecek. Kullanıcı parolayı hesap sayfasında değiştirebilir.
user-upstream = OpenID sağlayıcısı
user-upstream-groups = Sağlayıcıdaki gruplar
user-directory = Dizin
user-directory-changed = Son değişiklik: { $moment }
user-upstream-confirmed = Sağlayıcının son doğrulaması: { $moment }
user-directory-groups = Dizindeki gruplar
user-directory-no-groups = Yok
directory-state-disabled = Dizinde devre dışı
directory-state-expired = Dizindeki hesabın süresi doldu
upstream-state-disabled = Sağlayıcıda devre dışı
upstream-state-expired = Sağlayıcıdaki hesabın süresi doldu
upstream-state-gone = Artık sağlayıcıda yok
directory-state-gone = Artık dizinde yok
user-subject = Kullanıcı kimliği
user-groups-and-role = Gruplar ve rol
user-phone = Telefon numarası
user-profile-kept = Bu kullanıcının adını, adresini ve telefon numarasını şu dizin yönetiyor: <bdi>{ $source }</bdi>. Değişiklikleri orada yapın.
user-devices = Oturumlar ve cihazlar
user-grants = Erişim verilen uygulamalar
user-danger = Geri alınması zor işlemler
user-since = Eklenme tarihi
user-sessions = Açık erişimler
user-sessions-none = Bu hesaba erişimi olan hiçbir şey yok.
user-factors = İki adımlı doğrulama
user-factors-unused = Yok. Bu kullanıcı henüz oturum açamıyor.
user-factors-none = Yok. Bu kullanıcı yalnızca parolasıyla oturum açıyor.
user-factors-reset-open = Bütün doğrulama yöntemleri kaldırıldı. Kullanıcı, bağlantıyla yeni bir yöntem eklemeden oturum açamaz. Bağlantının son kullanım zamanı: { $moment }
user-factors-reset-late = Bütün doğrulama yöntemleri kaldırıldı, bağlantının süresi de doldu. Aşağıdan yeni bir bağlantı oluşturun.
user-factors-blocked = Çok fazla hatalı kod girildiği için kodlar artık kontrol edilmiyor.
user-factors-unblock = Engeli kaldır
user-factors-hint = Önce isteğin gerçekten bu kullanıcıdan geldiğinden emin olun. Bütün doğrulama yöntemleri kaldırılınca kullanıcının her yerdeki oturumu kapanır ve size, yeni bir yöntem eklemesi için bir bağlantı verilir. O zamana kadar parola tek başına yetmez.
user-factors-reset = Yöntemleri sıfırla ve bağlantı oluştur
user-link-once = Bu bağlantı 24 saat içinde bir kez kullanılabilir. Şimdi ve yalnızca bu kişiye iletin; bir daha gösterilmeyecek.
user-factor-none = Yok
user-factor-reset = Bağlantı bekleniyor
users-without-factor = İki adımlı doğrulama kullanmayanlar: { $without } / { $people } ({ $moment } itibarıyla)
confirm-cancel = Vazgeç
confirm-password-title = Yeni parola oluşturulsun mu?
confirm-password-effect = Mevcut parola geçersiz olur, kullanıcının bütün oturumları kapanır ve yeni parola size bir kez gösterilir.
confirm-disable-title = Kullanıcı devre dışı bırakılsın mı?
confirm-address-title = E-posta adresi değiştirilsin mi?
confirm-address-effect = Kullanıcı bundan sonra şu adresle oturum açar ve yeni parola bağlantıları oraya gönderilir: <bdi>{ $address }</bdi>. Bu posta kutusunu okuyabilen kişi hesabı ele geçirebilir.
confirm-address-removed = Kullanıcının artık e-posta adresi olmaz; yalnızca kullanıcı adıyla oturum açar. Kendisine ileti ve yeni parola bağlantısı gönderilemez.
confirm-delete-title = Kullanıcı silinsin mi?
confirm-delete-effect = Hesap; oturumları, uygulamaların erişimi, doğrulama yöntemleri, parolaları ve bekleyen e-postalarıyla birlikte silinir ve geri getirilemez. Denetim kaydındaki olaylar silinmez.
confirm-disable-effect = Kullanıcının bütün tarayıcı ve uygulamalardaki oturumları hemen kapanır; bir yönetici hesabı etkinleştirene kadar yeniden oturum açamaz.
confirm-revoke-title = Tüm oturumlar ve erişimler sonlandırılsın mı?
confirm-revoke-effect = Kullanıcının bütün tarayıcı ve uygulamalardaki oturumları hemen kapanır; yeniden oturum açması gerekir.
confirm-factors-title = Bütün doğrulama yöntemleri kaldırılsın mı?
confirm-factors-effect = Bütün doğrulama yöntemleri kalıcı olarak kaldırılır, kullanıcının her yerdeki oturumu kapanır ve size, yeni bir yöntem eklemesi için bir bağlantı verilir.
confirm-role-title = Konsol rolü değiştirilsin mi?
confirm-role-admin = Kullanıcı, diğer hesaplar dahil konsoldaki her şeyi görüp değiştirebilecek.
confirm-role-auditor = Kullanıcı, diğer hesaplar dahil konsoldaki her şeyi görebilecek, hiçbir şeyi değiştiremeyecek.
confirm-role-manager = Kullanıcı, konsolda başka grupların kullanıcılarını yönetebilecek.
confirm-role-developer = Kullanıcı, konsolda istemci kaydedebilecek.
confirm-role-none = Kullanıcı konsolu kullanamayacak.
confirm-add-title = Konsol rolü olan bir kullanıcı eklensin mi?
confirm-client-disable-title = İstemci devre dışı bırakılsın mı?
confirm-client-disable-effect = İstemci her yerde reddedilir ve belirteçleri hemen geçersiz olur.
confirm-client-delete-title = İstemci silinsin mi?
confirm-client-delete-effect = İstemci ve bütün erişimi silinir ve geri getirilemez.
confirm-client-secret-add-title = İkinci gizli anahtar eklensin mi?
confirm-client-secret-add-effect = Yeni gizli anahtar size bir kez gösterilir. Mevcut anahtar geçerli kalır.
confirm-client-secret-remove-title = Bu gizli anahtar kaldırılsın mı?
confirm-client-secret-remove-effect = Bu anahtarı kullanan uygulamalar artık jeton alamaz. Verilmiş jetonlar geçerli kalır.
confirm-client-keys-title = Açık anahtarlar belirlensin mi?
confirm-client-keys-effect = İstemci bundan sonra kimliğini yalnızca bu anahtarlarla kanıtlar. Gizli anahtarları ve önceki açık anahtarları hemen geçersiz olur.
confirm-client-use-secret-title = Açık anahtarlar yerine gizli anahtar kullanılsın mı?
confirm-client-use-secret-effect = Yeni gizli anahtar size bir kez gösterilir. İstemcinin açık anahtarları hemen geçersiz olur.
confirm-client-rotate-title = Yeni gizli anahtar oluşturulsun mu?
confirm-client-rotate-effect = Yeni gizli anahtar size bir kez gösterilir; mevcut anahtar seçtiğiniz süre dolunca geçersiz olur. Daha önce verilen belirteçler geçerli kalır. Anahtar sızdıysa onları da sonlandırın: <code>sealgate grant revoke-all --client { $client }</code>
confirm-username-title = Kullanıcı adı verilsin mi?
confirm-username-effect = Kullanıcı bu adla da oturum açabilir; uygulamalar kullanıcıyı bu adla tanıyabilir. Sonradan buradan değiştirilemez.
confirm-enable-title = Kullanıcı etkinleştirilsin mi?
confirm-enable-effect = Kullanıcı, önceki grupları ve rolleriyle yeniden oturum açabilir.
confirm-unblock-title = Kodlar yeniden kabul edilsin mi?
confirm-unblock-effect = Kullanıcı yeniden kod girebilir. Hatalı kodları kullanıcının kendisi girmediyse parolayı başka biri biliyordur.
confirm-groups-title = Gruplar değiştirilsin mi?
confirm-groups-effect = Kullanıcı eklenen grupların erişimini kazanır, yalnızca çıkarılan grupların sağladığı erişimi ise hemen kaybeder.
confirm-groups-added = Eklenen gruplar
confirm-groups-removed = Çıkarılan gruplar
confirm-uris-added = Eklenen yönlendirme adresleri
confirm-post-logout-added = Eklenen oturum kapatma sonrası adresler
confirm-scopes-added = Eklenen kapsamlar (scope)
confirm-client-widen-title = Bu ayarlar kaydedilsin mi?
confirm-client-widen-effect = Eklenen yönlendirme adresleri kullanıcıların oturum açma yanıtlarını alır; eklenen kapsamlar istemciye daha çok kullanıcı verisi açar.
confirm-client-enable-title = İstemci etkinleştirilsin mi?
confirm-client-enable-effect = Kullanıcılar istemcide yeniden oturum açabilir, istemci belirteç alabilir.
confirm-client-level-title = Gereken oturum açma değiştirilsin mi?
confirm-client-level-effect = İstemcinin kullanıcıları şöyle oturum açmalıdır: { $level }
confirm-client-approve-title = İstemci onaylansın mı?
confirm-client-unapprove-title = Onay geri alınsın mı?
confirm-client-unapprove-effect = İstemci listesi olmayan uygulamalar, sonraki istekten itibaren belirteçlerini reddeder.
confirm-clients =
    { $count ->
        [one] Kullanıcının 1 etkin istemcisi var. İstemci sahipsiz olarak çalışmayı sürdürür ve yalnızca yöneticiler değiştirebilir:
       *[other] Kullanıcının { $count } etkin istemcisi var. İstemciler sahipsiz olarak çalışmayı sürdürür ve yalnızca yöneticiler değiştirebilir:
    }
confirm-clients-disable = Bu istemciler de devre dışı bırakılsın ve belirteçleri sonlandırılsın
confirm-mail-title = İleti silinsin mi?
confirm-mail-effect = İleti gönderilmez. İçindeki bağlantı ve kodlar geçerli kalır ama kimseye ulaşmaz.
confirm-mail-message = İleti
user-access-hint = Devre dışı bırakılan kullanıcı oturum açamaz; bütün oturumları ve erişimleri sona erer.
user-revoke = Tüm oturumları ve erişimleri sonlandır
user-send-reset-link = Parola sıfırlama bağlantısı gönder
user-reset-password = Yeni parola oluştur

keys-title = İmza anahtarları
keys-lead = Özel anahtarlar güvenlik cihazının dışına çıkmaz.
keys-next-change = Sonraki değişiklik: { $moment }
keys-no-change = Planlanmış bir değişiklik yok.
key-pre-published = Yayımlandı, henüz imzalamıyor
key-active = İmzalıyor
key-retired = Kullanımdan kalktı: imzaladıkları hâlâ kabul edilir
key-removed = Kaldırıldı: imzaladıkları reddedilir
key-published-at = Yayımlanma: { $moment }
key-activate-at = İmzalamaya başlama: { $moment }
key-retire-at = Yerini başka bir anahtarın alması: { $moment }
key-remove-at = Kaldırılma: { $moment }

limits-title = İstek sınırları
limits-lead = Sınırlar yapılandırma dosyasında belirlenir. Sınırı aşan istekler, ne kadar beklemek gerektiğini bildiren bir 429 yanıtı alır.
limits-sign-ins = Uygulamaların başlattığı oturum açma işlemleri
limits-pages = Sayfalar ve diğer bütün adresler
limits-none = Sınır yok
limits-by-address = IP adresi başına dakikada { $limit } istek
limits-by-credential = İstemci veya belirteç başına dakikada { $limit } istek
limits-passwords = Hatalı parolalar
limits-failures = { $minutes } dakikada hesap başına en fazla { $account }, IP adresi başına en fazla { $address }

## Denetim kaydı

menu-activity = Etkinlik
menu-audit = Denetim kaydı
activity-title = Son etkinlikler
activity-lead = Hesabınızla ilgili son olaylar. Tanımadığınız bir şey görürseniz parolanızı değiştirin.
activity-none = Henüz kayıt yok.
activity-by-administrator = Bir yönetici yaptı
audit-title = Denetim kaydı
audit-kind = Olay
audit-kind-any = Bütün olaylar
audit-result = Sonuç
audit-result-failed = Başarısız veya şüpheli
audit-result-succeeded = Diğerleri
audit-person = Kullanıcı (e-posta, kullanıcı adı veya kimlik)
audit-person-wrong = Böyle bir kullanıcı bulunamadı. E-posta adresinin tamamını, kullanıcı adını veya kullanıcı kimliğini yazın.
audit-client = Uygulama (istemci kimliği)
audit-from = Başlangıç tarihi
audit-to = Bitiş tarihi (dahil)
audit-day-wrong = 2026-11-21 gibi bir tarih yazın.
audit-address-wrong = 192.0.2.7 veya 2001:db8::7 gibi bir IP adresi yazın.
audit-reload = Yenile
audit-reload-hint = Bu sayfanın adresi filtreyi içerir; yer imi olarak kaydedilebilir.
audit-show = Göster
audit-none = Kayıt bulunamadı.
audit-at = Zaman
audit-export = Bu kayıtları dışa aktar:
audit-export-hint = En yeni { $count } kayda kadar. Tümünü sunucudaki “sealgate audit export” komutu yazar.
audit-newer = Daha yeni kayıtlar
audit-older = Daha eski kayıtlar
audit-pages = Denetim kaydının sayfaları
event-subject-id = Kullanıcı kimliği
event-party-id = İstemci veya uygulama kimliği
event-name = Günlükteki adı
audit-of-person = Bu kullanıcının denetim kaydı
audit-of-client = Bu istemcinin denetim kaydı
event-subject = Kullanıcı
event-actor = İşlemi yapan
event-party = Uygulama
event-address = IP adresi
event-detail = Ayrıntılar
event-request = İstek kimliği
event-from = <bdi>{ $address }</bdi> adresinden
event-with = Uygulama: <bdi>{ $party }</bdi>
event-count = { $count } kez
actor-stranger = Oturum açmamış biri
actor-person = Kullanıcının kendisi
actor-developer = Geliştirici
actor-client = İstemcinin kendisi
actor-operator = Komut satırından bir yönetici
actor-server = Sunucu
actor-configuration = Yapılandırma dosyası
actor-api-token = API belirteci
event-signed-in = Oturum açıldı
event-sign-in-failed = Oturum açma denemesi başarısız oldu
event-app-signed-in = Korunan bir uygulamada oturum açıldı
event-signed-out = Oturum kapatıldı
event-consent-given = Erişim izni verildi
event-consent-withdrawn = Erişim kaldırıldı
event-tokens-issued = Belirteçler verildi
event-tokens-refreshed = Belirteçler yenilendi
event-reuse-detected = Kullanılmış kod veya belirteç yeniden kullanılmak istendi; erişim sonlandırıldı
event-token-revoked = Belirteç iptal edildi
event-grants-ended = Uygulamaların erişimi sonlandırıldı
event-sessions-ended = Oturumlar sonlandırıldı
event-person-revoked = Bütün oturumlar ve erişimler sonlandırıldı
event-client-registered = İstemci kaydedildi
event-client-changed = İstemci değiştirildi
event-client-deleted = İstemci silindi
event-user-created = Kullanıcı eklendi
event-self-registered = Hesabı kullanıcı kendisi açtı
event-user-changed = Hesap bilgileri değiştirildi
event-user-disabled = Hesap devre dışı bırakıldı
event-user-enabled = Hesap etkinleştirildi
event-user-deleted = Kullanıcı silindi
event-password-changed = Parola değiştirildi
event-password-reset-asked = Parola sıfırlama istendi
event-password-reset = Parola, e-postayla gelen bağlantıyla sıfırlandı
event-address-verified = Adres doğrulandı
event-address-changed = Adres değiştirildi
event-address-restored = Adres değişikliği geri alındı
event-app-password-created = Uygulama parolası oluşturuldu
event-app-password-revoked = Uygulama parolası iptal edildi
event-app-credential-set = Uygulama giriş bilgileri kaydedildi
event-app-credential-removed = Uygulama giriş bilgileri silindi
event-factor-added = Doğrulama yöntemi eklendi
event-factor-removed = Doğrulama yöntemi kaldırıldı
event-factor-renamed = Doğrulama yönteminin adı değiştirildi
event-recovery-codes-made = Yeni kurtarma kodları oluşturuldu
event-recovery-code-used = Kurtarma koduyla oturum açıldı
event-factor-failed = Doğru paroladan sonra iki adımlı doğrulama başarısız oldu
event-factor-blocked = Çok fazla hatalı deneme nedeniyle doğrulama yöntemi engellendi
event-key-may-be-copied = Kopyalanmış olabileceği için bir anahtar reddedildi
event-factors-reset = Bütün doğrulama yöntemleri kaldırıldı
event-account-linked = Hesap bağlandı
event-account-unlinked = Hesap bağlantısı kaldırıldı
event-invitation-sent = Davet gönderildi
event-invitation-accepted = Davet kabul edildi
event-invitation-withdrawn = Davet geri alındı
event-keys-changed = İmza anahtarı takvimi değiştirildi
event-directory-loss-accepted = Dizindeki hesap kaybı kabul edildi
event-mail-changed = E-posta kuyruğu değiştirildi
event-logout-not-accepted = İstemci oturum kapatma bildirimini kabul etmedi
event-configuration-reloaded = Yapılandırma yeniden yüklendi
event-api-token-created = API belirteci oluşturuldu
event-api-token-revoked = API belirteci kaldırıldı

# Olayın yanında gösterilen ayrıntılar.
detail-wrong-password = Hatalı parola
detail-throttled = Çok fazla deneme
detail-at-password-change = parola değiştirilirken
detail-at-linking = hesap bağlanırken
detail-link-mailed = sıfırlama bağlantısı gönderildi
detail-has-passkeys-only = yalnızca geçiş anahtarıyla oturum açıyor; e-postayla bildirildi
detail-password-elsewhere = parola dizinde tutuluyor; e-postayla bildirildi
detail-account-disabled = hesap devre dışı; e-posta gönderilmedi
detail-address-not-verified = e-posta adresi doğrulanmamış; e-posta gönderilmedi
detail-no-password = hesabın parolası yok; e-posta gönderilmedi
detail-of-many = Birden çok hesap veya adres, birlikte
detail-groups-and-roles = Gruplar ve roller
detail-address = E-posta adresi
detail-address-verification = E-posta adresinin doğrulanması
detail-username = Kullanıcı adı
detail-roles = Roller
detail-groups = Gruplar
detail-group-added = eklendiği grup: <bdi>{ $group }</bdi>
detail-group-removed = çıkarıldığı grup: <bdi>{ $group }</bdi>
detail-role-added = verilen rol: { $role }
detail-role-removed = alınan rol: { $role }
detail-more = diğer değişiklikler: { $count }
detail-app-password = Uygulama parolası
detail-blocked-factors = doğrulama yöntemlerinin engeli kaldırıldı
detail-name = Ad
detail-phone-number = Telefon numarası
detail-picture = Profil fotoğrafı
detail-all-others = Diğer bütün oturumlar
detail-one-session = Bir oturum
detail-sessions = Sonlandırılan oturum: { $count }
detail-grants = Sonlandırılan erişim: { $count }
detail-refresh-token = Yenileme belirteci
detail-access-token = Erişim belirteci
detail-code = Yetkilendirme kodu
detail-never-used = Hiç kullanılmamıştı
detail-settings = Ayarlar
detail-approval-lost = değişiklik nedeniyle onay kalktı
detail-new-secret = Yeni gizli anahtar
detail-secret-removed = Gizli anahtar kaldırıldı
detail-disabled = Devre dışı bırakıldı
detail-enabled = Etkinleştirildi
detail-approved = Onaylandı
detail-approval-revoked = Onay geri alındı
detail-client-test-on = Deneme açıldı
detail-client-test-off = Deneme kapatıldı
detail-nothing-changed = Hiçbir ayar değişmedi

## E-postalar

mail-subject = { $title } – { $operator }
mail-footer = Bu e-posta <bdi>{ $operator }</bdi> ({ $host }) tarafından otomatik olarak gönderildi.
mail-time = Zaman: { $moment }
mail-moment = { $day } { $month } { $year } { $time } UTC
mail-from-address = IP adresi: { $address }
mail-from-browser = Tarayıcı: { $browser }
mail-copy-link = Düğme çalışmazsa bu adresi kopyalayıp tarayıcınıza yapıştırın:
mail-keep-link = Bu e-postayı kimseye iletmeyin: bağlantıyı ele geçiren herkes kullanabilir.

mail-reset-title = Parolanızı sıfırlayın
mail-reset-lead = <bdi>{ $operator }</bdi> hesabınızın parolasını sıfırlamak için bir istek aldık. İsteği siz yaptıysanız yeni parolanızı buradan belirleyin:
mail-reset-button = Yeni parola belirle
mail-reset-life = Sıfırlama bağlantısı, istekten sonraki { $minutes } dakika içinde bir kez kullanılabilir. İki adımlı doğrulama açık kalır.
mail-reset-not-you = İsteği siz yapmadıysanız bu e-postayı yok sayabilirsiniz: parolanız değişmez.

mail-passkeys-title = Hesabınızın parolası yok
mail-passkeys-lead = <bdi>{ $operator }</bdi> hesabınızın parolasını sıfırlamak için bir istek aldık. Hesabınızın parolası yok: geçiş anahtarıyla oturum açıyorsunuz.
mail-passkeys-how = Oturum açmak için oturum açma sayfasında “Geçiş anahtarıyla oturum aç” seçeneğini kullanın. Geçiş anahtarınızın bulunduğu cihaz artık sizde değilse yöneticinizden yardım isteyin.
mail-elsewhere-title = Parolanızı kurumunuzda değiştirin
mail-elsewhere-lead = <bdi>{ $operator }</bdi> hesabınızın parolasını sıfırlamak için bir istek aldık. Bu parola buradan değiştirilemez.
mail-elsewhere-help = Parolanızı unuttuysanız kurumunuzun yöneticisinden yeni bir parola isteyin.
mail-passkeys-not-you = İsteği siz yapmadıysanız bu e-postayı yok sayabilirsiniz: hesabınız değişmez.

mail-invitation-title = Davet edildiniz
mail-invitation-lead = <bdi>{ $operator }</bdi> sizi davet ediyor.
mail-invitation-lead-inviter = <bdi>{ $inviter }</bdi>, <bdi>{ $operator }</bdi> adına sizi davet etti.
mail-invitation-app = Hesabınızla şu uygulamayı kullanabileceksiniz: <bdi>{ $app }</bdi>.
mail-invitation-do = Daveti buradan kabul edip hesabınızı hazırlayın:
mail-invitation-button = Daveti kabul et
mail-invitation-life = Bağlantı { $days } gün içinde bir kez kullanılabilir. Süresi geçerse yeni bir davet isteyin.
mail-invitation-not-you = Böyle bir davet beklemiyorsanız bu e-postayı yok sayabilirsiniz: siz kabul etmedikçe hiçbir şey olmaz.

mail-code-title = E-posta adresinizi doğrulayın
mail-code-title-new = Yeni e-posta adresinizi doğrulayın
mail-code-lead-address = Bu adresin <bdi>{ $operator }</bdi> hesabınıza ait olduğunu doğrulamak için bu doğrulama kodunu girin:
mail-code-lead-new = <bdi>{ $operator }</bdi> hesabınızın adresini bu adresle değiştirmek için bu doğrulama kodunu girin:
mail-code-lead-registration = <bdi>{ $operator }</bdi> hesabı oluşturmak için bu doğrulama kodunu girin:
mail-code-how = Kodu, işleme başladığınız tarayıcı penceresinde girin. Kod { $minutes } dakika geçerlidir.
mail-code-never = Bu kodu kimseyle paylaşmayın; <bdi>{ $operator }</bdi> adına aradığını söyleyenlerle bile.
mail-code-not-you = İşlemi siz başlatmadıysanız bu e-postayı yok sayabilirsiniz: kod olmadan hiçbir şey olmaz.

mail-exists-title = Zaten bir hesabınız var
mail-exists-lead = Birisi bu adresle <bdi>{ $operator }</bdi> hesabı oluşturmak istedi. Bu adresin zaten bir hesabı var. İsteği siz yaptıysanız oturum açın; parolanızı unuttuysanız oturum açma sayfasından sıfırlayabilirsiniz:
mail-exists-title-new = E-posta adresiniz başka bir hesap için girildi
mail-exists-lead-new = Birisi bu adresi başka bir <bdi>{ $operator }</bdi> hesabının adresi yapmak istedi. Bu adres sizin hesabınıza ait olduğundan hiçbir şey değişmedi. İsteği siz yaptıysanız bu adresin ait olduğu hesapla oturum açın; adresi başka bir hesapta kullanmak için önce bu hesabın adresini değiştirin:
mail-exists-not-you-new = İsteği siz yapmadıysanız bu e-postayı yok sayabilirsiniz: hesabınız ve adresi olduğu gibi kalır.
mail-exists-button = Oturum aç
mail-exists-not-you = İsteği siz yapmadıysanız bu e-postayı yok sayabilirsiniz: hesap oluşturulmadı ve hiçbir şey değişmedi.

mail-undo-title = E-posta adresiniz değiştirildi
mail-undo-lead = <bdi>{ $operator }</bdi> hesabınızın adresi artık bu adres değil; yeni adres: <bdi>{ $address }</bdi>. Değişikliği siz yaptıysanız bu e-postayı yok sayabilirsiniz.
mail-undo-do = Değişikliği siz yapmadıysanız buradan geri alın. Adresiniz eski hâline döner ve hesabınızdaki bütün oturumlar kapatılır:
mail-undo-button = Bunu ben yapmadım
mail-undo-life = Bağlantı en fazla { $days } gün boyunca ve yalnızca bir kez kullanılabilir.

mail-notice-count =
    { $count ->
        [one] Bu olay bir kez gerçekleşti.
       *[other] Bu olay, son e-postadan bu yana { $count } kez gerçekleşti.
    }
mail-notice-button = Hesabınızı kontrol edin
mail-notice-not-you = İşlemi siz yaptıysanız bu e-postayı yok sayabilirsiniz. Siz yapmadıysanız parolanızı değiştirin, diğer bütün oturumları kapatın ve yöneticinize haber verin:
mail-notice-not-you-password = Bunu siz yapmadıysanız birisi parolanızı biliyor. Parolanızı hemen değiştirin ve yöneticinize haber verin:
mail-notice-remove-key = Anahtarı az önce iki pencerede aynı anda kullanmadıysanız hesabınızdan kaldırın, yerine başka bir anahtar ekleyin ve yöneticinize haber verin:
mail-notice-administrator = Bunu beklemiyorsanız yöneticinize sorun. Hesabınızın şimdiki durumunu burada görebilirsiniz:
mail-notice-linked = İşlemi siz yapmadıysanız artık başka biri hesabınızda oturum açabilir. Hemen yöneticinize haber verin. Hesabınızın şimdiki durumunu burada görebilirsiniz:
mail-notice-client = Yalnızca tanıyorsanız onaylayın. İstemci listesinde onaylanmadı olarak işaretlidir:
mail-notice-client-button = İstemci listesini aç
mail-notice-locked-out = Yöneticinizin vereceği bağlantıyla yeni bir doğrulama yöntemi ekleyene kadar oturum açamazsınız. Bunu siz istemediyseniz hemen yöneticinize haber verin.

notice-password-changed-title = Parolanız değiştirildi
notice-password-changed = <bdi>{ $operator }</bdi> hesabınızın parolası değiştirildi.
notice-password-reset-title = Parolanız sıfırlandı
notice-password-reset = <bdi>{ $operator }</bdi> hesabınızın parolası, bu adrese gönderilen bir bağlantıyla sıfırlandı. Bütün oturumlar kapatıldı.
notice-factor-added-title = Doğrulama yöntemi eklendi
notice-factor-added = <bdi>{ $operator }</bdi> hesabınıza, oturum açarken kullanılacak bir doğrulama yöntemi eklendi.
notice-factor-removed-title = Doğrulama yöntemi kaldırıldı
notice-factor-removed = <bdi>{ $operator }</bdi> hesabınızdan, oturum açarken kullanılan bir doğrulama yöntemi kaldırıldı.
notice-factor-blocked-title = Doğrulama yöntemi engellendi
notice-factor-blocked = Çok sayıda hatalı denemeden sonra <bdi>{ $operator }</bdi> hesabınızın bir doğrulama yöntemi engellendi. Başka bir yöntemle oturum açarsanız engel kalkar.
notice-factor-failed-title = Başarısız oturum açma denemeleri
notice-factor-failed = Birisi <bdi>{ $operator }</bdi> hesabınızın parolasını doğru girdi, ardından iki adımlı doğrulamada birkaç kez başarısız oldu.
notice-recovery-used-title = Kurtarma kodu kullanıldı
notice-recovery-used = Birisi <bdi>{ $operator }</bdi> hesabınızda kurtarma koduyla oturum açtı.
notice-recovery-made-title = Yeni kurtarma kodları oluşturuldu
notice-recovery-made = <bdi>{ $operator }</bdi> hesabınız için yeni kurtarma kodları oluşturuldu. Eskileri artık kullanılamaz.
notice-key-copied-title = Bir anahtar kopyalanmış olabilir
notice-key-copied = <bdi>{ $operator }</bdi> hesabınızın bir anahtarı, kullanım sayacı geri gittiği için kabul edilmedi. Birisinde anahtarın bir kopyası olabilir.
notice-app-password-title = Uygulama parolası oluşturuldu
notice-app-password = <bdi>{ $operator }</bdi> hesabınız için bir uygulama parolası oluşturuldu. Bu parolayı bilen herkes, bir uygulamayı iki adımlı doğrulama olmadan sizin adınıza kullanabilir.
notice-account-linked-title = Hesabınız başka bir hesaba bağlandı
notice-account-linked = <bdi>{ $operator }</bdi> hesabınız, başka bir sağlayıcıdaki veya bir dizindeki bir hesaba bağlandı. Bundan sonra parolanızın yerine o hesapla oturum açılır.
notice-account-unlinked-title = Hesap bağlantısı kaldırıldı
notice-account-unlinked = <bdi>{ $operator }</bdi> hesabınızın, başka bir sağlayıcıdaki veya bir dizindeki hesapla bağlantısı kaldırıldı.
notice-app-credential-title = Uygulama giriş bilgileri kaydedildi
notice-app-credential = <bdi>{ $operator }</bdi> hesabınıza bir uygulamanın kullanıcı adı ve parolası kaydedildi. Bundan sonra o uygulamada oturumunuz bu bilgilerle açılacak.
notice-address-changed-title = E-posta adresiniz değiştirildi
notice-address-changed = Bu adres artık <bdi>{ $operator }</bdi> hesabınızın e-posta adresi.
notice-address-replaced-title = E-posta adresiniz değiştirildi
notice-address-replaced = Bu adres artık <bdi>{ $operator }</bdi> hesabınızın e-posta adresi değil.
notice-administrator-title = Bir yönetici hesabınızı değiştirdi
notice-administrator = Bir yönetici <bdi>{ $operator }</bdi> hesabınızda değişiklik yaptı.
notice-factors-reset-title = Bütün doğrulama yöntemleri kaldırıldı
notice-factors-reset = Bir yönetici <bdi>{ $operator }</bdi> hesabınızın bütün doğrulama yöntemlerini kaldırdı ve bütün oturumları kapattı.
notice-client-title = Bir uygulama onayınızı bekliyor
notice-client = Bir kullanıcı, <bdi>{ $operator }</bdi> üzerinde kendiliğinden kaydolan bir uygulamaya hesabına erişim izni verdi. Bir yönetici onaylayana kadar korunan uygulamalar bu uygulamayı reddeder.

mail-test-title = Deneme e-postası
mail-test-lead = <bdi>{ $operator }</bdi> e-postaları bu adrese ulaşıyor. Bu e-posta, bunu denemek için bir yönetici tarafından gönderildi.

month-january = Ocak
month-february = Şubat
month-march = Mart
month-april = Nisan
month-may = Mayıs
month-june = Haziran
month-july = Temmuz
month-august = Ağustos
month-september = Eylül
month-october = Ekim
month-november = Kasım
month-december = Aralık

## Konsol: genel bakış, uygulamalar, anahtarlar ve e-posta

menu-overview = Genel bakış
menu-mail = E-posta
overview-fine = Her şey çalışıyor. Yapmanız gereken bir şey yok.
overview-warnings = Dikkat gerekiyor
overview-show = Aç: { $page }
overview-sessions = Oturum açılmış tarayıcılar
overview-hours = Son 24 saatte oturum açma
overview-days = Son 30 günde oturum açma
overview-signed-in = Başarılı: { $count }
overview-failed = Başarısız: { $count }
overview-axis = Başlangıç: { $moment }. En yüksek sütun: { $most }
overview-counted = Sayım zamanı: { $moment }. Günler ve saatler UTC’ye göredir.
overview-counting = Sayım sürüyor. Sayfayı birazdan yenileyin.
overview-state = Durum
overview-servers = { $all } sunucudan { $up } tanesine erişilebiliyor.
overview-key = İmza anahtarı
overview-token-ready = Güvenlik cihazı imzalıyor
overview-token-away = Güvenlik cihazı imzalamıyor
overview-certificates = Sertifikalar
overview-certificate-until = <code>{ $file }</code>: son geçerlilik { $moment }
overview-database = PostgreSQL
overview-mail = { $waiting } ileti kuyrukta, { $dead } ileti teslim edilemedi.
overview-mail-off = Sealgate e-posta göndermiyor: yapılandırma dosyasında e-posta sunucusu yok.
overview-store = Veri deposunun boyutu
overview-mebibytes = { $size } MiB
overview-version = Sürüm
overview-loaded = Yapılandırmanın yüklenmesi: { $moment }
overview-token-down = Güvenlik cihazı imzalamıyor, bu yüzden kimse oturum açamıyor. Cihazı ve bağlantısını kontrol edin.
overview-no-key = İmzalayan bir anahtar yok.
overview-rotation-fails = İmza anahtarının yenilenme zamanı geldi, ancak yenilenemiyor.
overview-untrusted = Bu düğüm, diğer düğümlerin bazı anahtarlarına güvenmiyor.
overview-servers-down = Yanıt vermeyen uygulama sunucusu sayısı: { $count }.
overview-unapproved = Onayınızı bekleyen istemci sayısı: { $count }.
overview-undeliverable = Teslim edilemeyen e-posta sayısı: { $count }.
overview-certificate-expired = <code>{ $file }</code> sertifikasının süresi doldu, tarayıcılar onu reddeder. Sertifikayı yenileyin.
overview-certificate-expires = <code>{ $file }</code> sertifikasının süresi yakında dolacak. Kalan gün: { $days }.
overview-reload-refused = Yapılandırma dosyasında hatalar olduğu için son yeniden yükleme hiçbir şeyi değiştirmedi. sealgate check komutunu çalıştırın.
overview-configuration = Yapılandırmayla ilgili uyarı:
app-sessions = Açık oturumlar
app-name = Yapılandırmadaki adı
app-title = Uygulama: { $app }
app-access = Kimler erişebilir
app-access-public = Herkese açık kuralların yollarına oturum açmadan herkes.
app-access-users = Grup ve kullanıcı belirtmeyen kuralların yollarına oturum açan tüm kullanıcılar.
app-access-group = Grup: { $group }
app-access-members = Üye sayısı: { $count }
app-access-user = Kullanıcı: <bdi>{ $user }</bdi>
app-rules = Kurallar
app-rules-lead = Yolu, yöntemi ve ağı uyan ilk kural geçerlidir.
app-rules-none = Uygulamanın kuralı yok, bu nedenle her istek reddedilir.
app-refusals = Son reddedilen istekler
app-refusals-lead = Bu sunucunun, başlatıldığından beri reddettiği son istekler. Yalnızca oturum açma sayfasına yönlendirilenler listelenmez.
app-refusals-none = Reddedilen istek yok.
app-request = İstek
app-reason = Neden
rule-path = Yol
rule-access = Erişim
rule-conditions = Koşullar
rule-public = Herkes
rule-signed-in = Oturum açan kullanıcılar ve erişim belirteçleri
rule-bearer = Erişim belirteçleri
rule-groups = Gruplar: <bdi>{ $list }</bdi>
rule-users = Kullanıcılar: <bdi>{ $list }</bdi>
rule-scopes = Kapsamlar: <code>{ $list }</code>
rule-networks = Ağlar: <code>{ $list }</code>
rule-levels = Oturum açma düzeyi: <code>{ $list }</code>
rule-max-age = Son { $minutes } dakika içinde oturum açmış
app-new = Uygulama ekle
app-new-lead = Bu sayfa, yapılandırma dosyasına eklenecek bölümü hazırlar ve dosyayla birlikte kontrol eder. Dosyayı değiştirmez.
app-new-host = Herkese açık ana makine adı
app-new-host-hint = Kullanıcıların yazdığı ad, örneğin wiki.example.com.
app-new-upstream = Uygulama sunucusunun adresi
app-new-upstream-hint = Sealgate’in eriştiği adres, örneğin http://127.0.0.1:8081.
app-new-title = Kullanıcıların gördüğü ad (isteğe bağlı)
app-new-name-hint = Küçük harf, rakam ve tire. Boş bırakırsanız ana makine adının ilk bölümü kullanılır.
app-new-groups = Erişebilecek gruplar (isteğe bağlı)
app-new-groups-hint = Her satıra bir grup yazın. Grup yazmazsanız oturum açan tüm kullanıcılar erişebilir.
app-new-check = Kontrol et
app-new-input = Ana makine adını ve sunucunun adresini girin. Denetim karakterleri kullanılamaz.
app-new-unreadable = Sunucu, yapılandırma dosyasını (<code>{ $file }</code>) okuyamıyor.
app-new-valid = Bölümde hata yok. Bölümü <code>{ $file }</code> dosyasının sonuna ekleyin, ardından <code>sealgate reload</code> komutunu çalıştırın.
app-new-faults = Bu bölümle yapılandırma dosyasında şu hatalar olur:
app-new-section = Yapılandırma dosyasına eklenecek bölüm
check-title = Erişim kontrolü
check-lead = Bir isteğe izin verilip verilmeyeceğini, hangi kuralın geçerli olduğunu ve uygulamanın alacağı üstbilgileri gösterir. Hiçbir istek gönderilmez.
check-problem = İstek kontrol edilemedi. İşaretli alanı düzeltin.
check-url = URL
check-url-wrong = https://wiki.example.com/page gibi tam bir URL girin.
check-url-characters = Yolda, URL’de bulunamayacak karakterler var. Bu karakterleri yüzde kodlamasıyla yazın.
check-method = Yöntem
check-method-wrong = GET gibi bir yöntem girin.
check-user = Kullanıcı
check-user-hint = E-posta adresi, kullanıcı adı veya kimlik. Oturum açılmadan yapılan bir istek için boş bırakın.
check-user-wrong = Bir e-posta adresi, kullanıcı adı veya kimlik girin.
check-user-none = Böyle bir kullanıcı yok.
check-level = Oturum açma düzeyi
check-level-required = Kullanıcıdan istenen düzey
check-address = İstemcinin IP adresi
check-address-hint = Ağ belirten kurallar için.
check-address-wrong = 192.0.2.7 gibi bir IP adresi girin.
check-token = Erişim belirteci (isteğe bağlı)
check-token-hint = İstemcilerin istekleri için, kullanıcı yerine. İmza kontrol edilmez ve belirteç saklanmaz.
check-claim = Bildirim (claim)
check-audience = Belirtecin hedef kitlesi
check-submit = Kontrol et
check-again = Başka bir isteği kontrol et
check-allowed = İzin verilir
check-refused = Reddedilir
check-sign-in = Oturum açma sayfasına yönlendirilir
check-own = Sealgate yanıtlar
check-status = HTTP { $status }
check-rule = Kural
check-groups = Gruplar: { $groups }
check-login = Uygulamada oturum açma
check-login-own = Kullanıcının kendi adı ve parolasıyla
check-login-service = <bdi>{ $name }</bdi> hesabıyla
check-headers = Kimlik üstbilgileri
check-value = Değer
check-from = Kaynak
check-signed = Her istek için imzalanır
check-not-sent = Gönderilmez: kullanıcıda bu değer yok
check-user-disabled = Kullanıcı devre dışı, oturum açamaz. Önce kullanıcıyı etkinleştirin.
check-tokens-only = Kural yalnızca erişim belirteçlerini kabul eder, tarayıcı oturumunu kabul etmez.
check-address-missing = Bu yolun kuralları ağa bağlı. İstemcinin IP adresini girin.
check-link = Bir uygulamaya erişimini kontrol et
reason-forwarded = İstek, kuralın koşullarını karşılıyor.
reason-own = Bu yolu Sealgate kendisi yanıtlar.
reason-no-application = Bu ana makine adına sahip bir uygulama yok.
reason-unauthenticated = Kural, oturum açılmasını veya erişim belirteci gönderilmesini gerektirir.
reason-invalid-token = Erişim belirteci geçersiz, süresi dolmuş veya başka bir sağlayıcıya ait.
reason-audience = Erişim belirteci başka bir hedef kitle (audience) için.
reason-client = Uygulama bu istemcinin belirteçlerini kabul etmiyor. İstemciyi uygulamanın clients listesine ekleyin.
reason-unapproved-client = İstemci onaylanmamış. İstemcinin sayfasında onaylayın.
reason-scope = Belirteçte, kuralın istediği bir kapsam yok.
reason-user = Kural bu kullanıcıyı içermiyor.
reason-group = Kullanıcı, kuraldaki grupların hiçbirinde değil.
reason-acr = Kural daha güçlü bir oturum açma gerektiriyor.
reason-max-age = Oturum, kural için çok eski.
reason-too-many-groups = Kullanıcının grupları bir üstbilgiye sığmıyor. Kullanıcıyı bazı gruplardan çıkarın.
reason-unwritable-group = Bir grubun adı üstbilgiye yazılamıyor. Grubu yeniden adlandırın veya uygulamanın names ayarını utf8 yapın.
reason-destination = Hedef yolun kuralı isteği reddediyor.
reason-below = İstek, alttaki tüm yolları etkiliyor ve bunlardan birinin kuralı isteği reddediyor.
reason-maintenance = Uygulama bakımda ve kullanıcı, bakım sırasında erişebilen gruplardan hiçbirinde değil.
reason-network = Bu yolun hiçbir kuralı istemcinin ağını kapsamıyor.
reason-unopened = Uygulamanın hiçbir kuralı bu yolu kapsamıyor.
reason-method = Bu yolun hiçbir kuralı bu yönteme izin vermiyor.
reason-method-case = Yöntemi büyük harflerle yazın.
reason-repeated-field = Yalnızca bir kez bulunabilecek bir üstbilgi yinelenmiş.
reason-ambiguous = Sunucular bu yolu veya yöntemi farklı biçimlerde okuyabilir ({ $reason }). Olağan biçimiyle yazın.
keys-next-rotation = Sonraki otomatik yenileme: { $moment }
keys-problem = Anahtar yenilenmedi.
keys-rotate = İmza anahtarını yenile
keys-rotate-hint = Tüm uygulamalar yeni anahtarı aldıktan sonra yeni anahtar imzalamaya başlar. Kimsenin oturumu kapanmaz.
keys-rotating = Yenileme sürüyor: sıradaki imzaları yayımlanan anahtar atacak.
keys-plan = Planı göster
keys-plan-title = İmza anahtarı yenilensin mi?
keys-plan-publish = Şimdi: güvenlik cihazında yeni bir anahtar oluşturulur ve yayımlanır.
keys-plan-waiting = Şimdi: yayımlanmış olan <code>{ $kid }</code> anahtarı zamanlanır.
keys-plan-activate = { $moment }: yeni anahtar imzalamaya başlar. O zamana kadar tüm uygulamalar anahtarı almış olur.
keys-plan-retire = Yeni anahtar başlayana kadar şu anki anahtar (<code>{ $kid }</code>) imzalar.
keys-plan-remove = { $moment }: <code>{ $kid }</code> kaldırılır. O zamana kadar imzaladığı her şeyin süresi dolmuş olur.
keys-plan-effect = Kullanıcılar bir şey fark etmez. Bir anahtarın ele geçirilmiş olmasından şüpheleniyorsanız bunun yerine sealgate key rotate --emergency komutunu çalıştırın.
outbox-lead = Sealgate e-postaları <bdi>{ $server }</bdi> üzerinden gönderir.
outbox-off = Sealgate e-posta göndermiyor. Yapılandırma dosyasında bir e-posta sunucusu tanımlayın ([mail]).
outbox-test = Deneme iletisi
outbox-test-send = Gönder
outbox-test-sent = E-posta sunucusu deneme iletisini kabul etti. Sunucunun yanıtı:
outbox-test-failed = Deneme iletisi gönderilmedi.
outbox-test-address-wrong = ad@example.com gibi bir adres girin.
outbox-dead = Teslim edilemeyenler
outbox-dead-none = Teslim edilemeyen ileti yok.
outbox-waiting = Kuyruk
outbox-waiting-none = Kuyruk boş.
outbox-created = Oluşturulma: { $moment }.
outbox-due = Sonraki deneme: { $moment }.
outbox-attempts = Deneme sayısı: { $count }.
outbox-retry = Şimdi yeniden dene
outbox-retry-named = Şimdi yeniden dene: { $id }
outbox-delete-named = Sil: { $id }
outbox-more = Her listede en fazla { $most } ileti gösterilir. Tümü için sealgate mail list komutunu çalıştırın.
outbox-templates = Tüm iletilerin önizlemesi
outbox-templates-lead = Sealgate’in gönderdiği iletiler, örnek değerlerle.
outbox-back = Kuyruğa dön
outbox-kind-reset = Parola sıfırlama
outbox-kind-code = Doğrulama kodu
outbox-kind-passkeys = Yalnızca geçiş anahtarı olan hesap için parola sıfırlama
outbox-kind-elsewhere = Dizindeki bir hesap için parola sıfırlama
outbox-kind-invitation = Davet
outbox-kind-exists = Hesap zaten var
outbox-kind-address = E-posta adresi değişti
outbox-kind-notice = Güvenlik bildirimi
done-key-rotated = Yeni anahtar yayımlandı.
done-mail-retried = İleti birkaç saniye içinde gönderilecek.
done-mail-deleted = İleti silindi.

## Yönetim API'si belirteçleri

api-tokens-title = API belirteçleri
api-tokens-lead = Programlar bu kurulumu bir belirteçle yönetir. Bir belirteç, yalnızca onu oluşturan yöneticinin rolü sürdükçe çalışır.
api-tokens-none = API belirteci yok.
api-tokens-full = Çok fazla API belirteci var. Önce birini kaldırın.
api-token-new = Belirteç oluştur
api-token-once = Belirteci şimdi kopyalayın. Bir daha gösterilmez.
api-token-name-hint = Belirteci kullanan program, örneğin terraform.
api-token-name-wrong = 1 ile 100 karakter arasında bir ad girin.
api-token-scopes = Kapsamlar
api-token-scopes-wrong = En az bir kapsam seçin.
api-token-lifetime = Geçerlilik süresi
# $days (number): gün sayısı
api-token-days = { $days } gün
api-token-create = Belirteç oluştur
api-token-remove = Kaldır
# $name: belirtecin adı
api-token-remove-named = { $name } belirtecini kaldır
# $created, $expires: zamanlar
api-token-times = Oluşturulma: { $created }, bitiş: { $expires }.
# $at: zaman
api-token-used = Son kullanım: { $at }.
api-token-unused = Hiç kullanılmadı.
api-scope-users-read = <code>users:read</code> Kullanıcıları listele
api-scope-users-write = <code>users:write</code> Kullanıcı oluştur, değiştir ve sil, kimlik bilgilerini sıfırla
api-scope-groups-read = <code>groups:read</code> Grupları ve üyelerini listele
api-scope-groups-write = <code>groups:write</code> Üyeleri değiştir, grupları yeniden adlandır ve sil
api-scope-clients-read = <code>clients:read</code> İstemcileri listele
api-scope-clients-write = <code>clients:write</code> İstemci oluştur, değiştir ve sil, gizli anahtar üret
api-scope-sessions-read = <code>sessions:read</code> Oturumları ve diğer erişimleri listele
api-scope-sessions-write = <code>sessions:write</code> Oturumları ve diğer erişimleri sonlandır
api-scope-keys-read = <code>keys:read</code> İmza anahtarlarını listele
api-scope-keys-write = <code>keys:write</code> İmza anahtarını yenile
api-scope-mail-read = <code>mail:read</code> E-postaları listele
api-scope-mail-write = <code>mail:write</code> E-postaları yeniden dene ve sil
api-scope-audit-read = <code>audit:read</code> Denetim kaydını oku
api-scope-apps-read = <code>apps:read</code> Uygulamaları listele ve erişimi denetle
api-scope-admins-write = <code>admins:write</code> Başka bir yazma kapsamıyla birlikte: konsol rolü olan kullanıcıları değiştir
confirm-api-token-title = Bu belirteç oluşturulsun mu?
confirm-api-token-effect = Belirtece sahip her program, parola veya ikinci adım olmadan bunları sizin adınıza yapabilir. Belirteç size bir kez gösterilir.
confirm-api-token-until = Bitiş
confirm-api-token-remove-title = Bu belirteç kaldırılsın mı?
confirm-api-token-remove-effect = Belirteci kullanan programlar hemen çalışmaz olur.
done-api-token-removed = Belirteç kaldırıldı.
