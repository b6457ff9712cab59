<?php
/**
 * Authenticates DokuWiki users by Sealgate's identity headers (preset = "dokuwiki"). Copy it to
 * lib/plugins/authsealgate/auth.php, and add to conf/local.protected.php:
 *
 *   $conf['useacl']   = 1;
 *   $conf['authtype'] = 'authsealgate';
 *
 * DokuWiki must only be reachable through Sealgate, because a client that reaches it directly can forge
 * the headers.
 */
class auth_plugin_authsealgate extends DokuWiki_Auth_Plugin
{
    public function __construct()
    {
        parent::__construct();
        $this->cando['external'] = true;
        // Sealgate manages the session: link to /.sealgate/logout.
        $this->cando['logout'] = false;
    }

    public function trustExternal($user, $pass, $sticky = false)
    {
        global $USERINFO;
        // Values are percent-encoded UTF-8, groups are separated by commas: split first, then decode.
        $said = static fn($name) => rawurldecode($_SERVER['HTTP_REMOTE_' . $name] ?? '');
        $who = $said('USER');
        if ($who === '') {
            return false;
        }
        $groups = array_filter(explode(',', $_SERVER['HTTP_REMOTE_GROUPS'] ?? ''), 'strlen');
        $USERINFO = [
            'name' => $said('NAME') ?: $who,
            'mail' => $said('EMAIL'),
            // Every user is in DokuWiki's group `user`.
            'grps' => array_merge(['user'], array_map('rawurldecode', $groups)),
        ];
        $_SERVER['REMOTE_USER'] = $who;
        $_SESSION[DOKU_COOKIE]['auth']['user'] = $who;
        $_SESSION[DOKU_COOKIE]['auth']['info'] = $USERINFO;
        return true;
    }
}
