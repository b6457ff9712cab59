<?php
/**
 * Tells DokuWiki who somebody is, from the headers that Sealgate writes (preset = "dokuwiki"). Copy it to
 * lib/plugins/authsealgate/auth.php, and write in conf/local.protected.php:
 *
 *   $conf['useacl']   = 1;
 *   $conf['authtype'] = 'authsealgate';
 *
 * Nobody may reach DokuWiki but through Sealgate: whoever does can write the headers.
 */
class auth_plugin_authsealgate extends DokuWiki_Auth_Plugin
{
    public function __construct()
    {
        parent::__construct();
        $this->cando['external'] = true;
        // The session is Sealgate's: link to /.sealgate/logout.
        $this->cando['logout'] = false;
    }

    public function trustExternal($user, $pass, $sticky = false)
    {
        global $USERINFO;
        // Percent-encoded UTF-8, groups with commas between them: split first, then decode.
        $said = static fn($name) => rawurldecode($_SERVER['HTTP_REMOTE_' . $name] ?? '');
        $who = $said('USER');
        if ($who === '') {
            return false;
        }
        $groups = array_filter(explode(',', $_SERVER['HTTP_REMOTE_GROUPS'] ?? ''), 'strlen');
        $USERINFO = [
            'name' => $said('NAME') ?: $who,
            'mail' => $said('EMAIL'),
            // Every person is in DokuWiki's own group for people.
            'grps' => array_merge(['user'], array_map('rawurldecode', $groups)),
        ];
        $_SERVER['REMOTE_USER'] = $who;
        $_SESSION[DOKU_COOKIE]['auth']['user'] = $who;
        $_SESSION[DOKU_COOKIE]['auth']['info'] = $USERINFO;
        return true;
    }
}
