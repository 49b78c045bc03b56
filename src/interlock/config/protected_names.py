"""The default of TOOL_PROTECTED_NAMES: files that execute code or change what git and shells do."""

PROTECTED_NAMES = (
    ".git/hooks",
    ".git/config",
    # Without a valid one, git looks for a repository in the directory itself. git in a command rewrites it.
    ".git/HEAD",
    # Each of these makes git look for its hooks and settings elsewhere.
    ".git/config.worktree",
    ".git/commondir",
    ".git/modules/**/hooks",
    ".git/modules/**/config",
    ".git/modules/**/commondir",
    ".git/worktrees/**/commondir",
    ".git/worktrees/**/config.worktree",
    ".mcp.json",
    ".vscode",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".config/fish",
)
