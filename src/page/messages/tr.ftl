# Kişilerin okuduğu bütün sözler, Türkçe. Aynı kimlikler en.ftl dosyasında ve ../messages.rs içinde de bulunur.
# Adlar cümleye bütün olarak, <bdi> içinde girer ve hiçbir ada ek getirilmez: ek, "uygulama" veya "hesap" gibi bir
# sözcüğe gelir. `plain` bildirilen iletilerde biçimleme bulunmaz.

## Her sayfada

document-title = { $page } – { $operator }
document-title-problem = Hata: { $page } – { $operator }
language-switch = Dil
language-turkish = Türkçe
language-english = English

## Oturum açma

login-title = Oturum açın
login-lead = <bdi>{ $operator }</bdi> hesabınızı kullanın.
login-lead-client = <bdi>{ $client }</bdi> uygulamasına devam etmek için <bdi>{ $operator }</bdi> hesabınızı kullanın.
login-email = E-posta adresi
login-password = Parola
login-submit = Oturum aç
login-wrong-credentials =
    E-posta adresi veya parola hatalı. İkisini de kontrol edip yeniden deneyin. Parolanızı unuttuysanız yöneticinizden
    yeni bir parola isteyin.
login-throttled-seconds = Çok fazla oturum açma denemesi yapıldı. { $seconds } saniye bekleyip yeniden deneyin.
login-throttled-minutes = Çok fazla oturum açma denemesi yapıldı. { $minutes } dakika bekleyip yeniden deneyin.
login-busy = Şu anda çok sayıda kişi oturum açtığı için parolanız kontrol edilemedi. Birkaç saniye bekleyip yeniden deneyin.

## İzin

consent-title = Erişim izni
consent-heading = <bdi>{ $client }</bdi> uygulaması <bdi>{ $operator }</bdi> hesabınıza erişmek istiyor
consent-account = <bdi>{ $account }</bdi> hesabıyla oturum açtınız.
consent-shares = İzin verirseniz <bdi>{ $client }</bdi> uygulamasına şunlar iletilecek:
consent-scope-openid = Kullanıcı kimliğiniz
consent-scope-profile = Profil bilgileriniz
consent-scope-email = E-posta adresiniz
consent-scope-phone = Telefon numaranız
consent-scope-other = <bdi>{ $scope }</bdi> izni
consent-nothing-stored = Şu anda kayıtlı bir bilgi yok.
consent-offline = Ben yokken de erişimi sürsün
consent-offline-hint =
    Böylece <bdi>{ $client }</bdi> uygulaması, siz yeniden oturum açmadan hesabınızı kullanmayı sürdürebilir. İşareti
    kaldırıp yalnızca diğerlerine izin verebilirsiniz.
consent-remembered = İzin verirseniz aynı erişim için bir daha sorulmaz.
consent-allow = İzin ver
consent-deny = Reddet

## Hesap seçimi

chooser-title = Hesap seçin
chooser-lead = <bdi>{ $client }</bdi> uygulamasına hangi hesapla devam etmek istiyorsunuz?
chooser-other = Başka bir hesap kullan

## Oturumu kapatma

logout-title = Oturum kapatılsın mı?
logout-asked-by = <bdi>{ $client }</bdi> uygulaması oturumunuzun kapatılmasını istiyor.
logout-account = <bdi>{ $account }</bdi> hesabıyla oturum açtınız.
logout-effect = Bu işlem, <bdi>{ $operator }</bdi> hizmetindeki oturumunuzu bu tarayıcıda sonlandırır.
logout-confirm = Oturumu kapat
logout-stay = Oturumunuzun açık kalmasını istiyorsanız bu sayfayı kapatmanız yeterli.
signed-out-title = Oturumunuz kapatıldı
signed-out-close = Bu sayfayı kapatabilirsiniz.
signed-out-close-client = Bu sayfayı kapatabilir veya <bdi>{ $client }</bdi> uygulamasına dönebilirsiniz.
signed-out-others = Bir uygulamanın kendi oturumu, orada da oturumu kapatana kadar açık kalabilir.

## Uygulamaya erişim yok

forbidden-title = Erişim izniniz yok
forbidden-text = <bdi>{ $account }</bdi> hesabının <bdi>{ $app }</bdi> uygulamasına erişim izni yok.
forbidden-advice = Yöneticinizden erişim izni isteyin veya izni olan bir hesapla oturum açın.
forbidden-switch = Başka bir hesap kullan

## Hatalar: ne oldu ve ne yapmalı

error-unknown-client-title = Bu uygulama kayıtlı değil
error-unknown-client-text =
    Sizi buraya gönderen uygulama <bdi>{ $operator }</bdi> hizmetinde kayıtlı değil veya kullanıma kapatılmış.
    Uygulamaya geri dönün ve durumu uygulamayı yönetenlere bildirin.
error-redirect-uri-title = Dönüş adresine izin verilmiyor
error-redirect-uri-text =
    Uygulama, sizi kayıtlı olmayan bir adrese geri göndermemizi istedi; güvenliğiniz için işlemi durdurduk.
    Uygulamayı yönetenlerin, gönderilen <code>redirect_uri</code> değerini aynen kaydetmesi gerekir.
error-logout-redirect-uri-title = Dönüş adresine izin verilmiyor
error-logout-redirect-uri-text =
    Uygulama, oturum kapatıldıktan sonra sizi kayıtlı olmayan bir adrese göndermemizi istedi; bu yüzden işlemi durdurduk.
    Uygulamayı yönetenlerin, gönderilen <code>post_logout_redirect_uri</code> değerini aynen kaydetmesi gerekir.
error-invalid-request-title = İstek geçerli değil
error-invalid-request-text =
    İsteğin bir bölümü eksik veya hatalı. Uygulamaya geri dönüp yeniden başlayın. Sorun sürerse uygulamayı yönetenlere
    bildirin.
error-expired-form-title = Bu sayfanın süresi doldu
error-expired-form-text =
    Sayfa çok uzun süre açık kaldı veya başka bir tarayıcıya ait. Hiçbir şey değiştirilmedi. Uygulamaya geri dönüp
    yeniden başlayın.
error-cookie-missing-title = Gerekli çerez bulunamadı
error-cookie-missing-text =
    Oturum açmak için bir çerez gerekiyor, ancak tarayıcınız bu çerezi göndermedi. Bu site için çerezlere izin verin,
    ardından uygulamaya geri dönüp yeniden başlayın.
error-nothing-to-do-title = Uygulamadan başlayın
error-nothing-to-do-text =
    Bu tarayıcıda süren bir oturum açma işlemi yok. Kullanmak istediğiniz uygulamayı açın; gerektiğinde sizi buraya
    getirecektir.
error-not-found-title = Sayfa bulunamadı
error-not-found-text = Bu adreste bir sayfa yok. Adresi kontrol edin veya geldiğiniz yere geri dönün.
error-too-many-requests-title = Çok fazla istek
error-too-many-requests-seconds = Ağınızdan çok fazla istek geldi. { $seconds } saniye bekleyip bu sayfayı yenileyin.
error-too-many-requests-minutes = Ağınızdan çok fazla istek geldi. { $minutes } dakika bekleyip bu sayfayı yenileyin.
error-sign-in-loop-title = Oturum açma tamamlanamıyor
error-sign-in-loop-text =
    Kısa sürede birkaç kez ileri geri yönlendirildiğiniz için işlemi durdurduk. Bu site ve uygulama için çerezlere izin verip
    uygulamayı yeniden açın. Sorun sürerse yöneticinize bildirin.
error-upstream-title = Uygulama yanıt vermiyor
error-upstream-text =
    Sizden kaynaklanan bir sorun yok: bu adresteki uygulamaya şu anda ulaşılamıyor. Birkaç dakika sonra yeniden deneyin.
error-unavailable-title = Şu anda kullanılamıyor
error-unavailable-text =
    Sizden kaynaklanan bir sorun yok: hizmet şu anda çok yoğun veya bakımda. Biraz sonra yeniden deneyin.
error-internal-title = Bir sorun oluştu
error-internal-text =
    Sorun sizden değil, bizden kaynaklanıyor. Yeniden deneyin; tekrarlanırsa yöneticinize bildirin.
error-reference = Yardım isterken şu başvuru kodunu verin:
