"""Django's admin with one superuser: django_admin.py DIRECTORY PORT USER. PASSWORD has the password."""

import os
import sys
import types

import django
from django.conf import settings

directory, port, user = sys.argv[1:]
context = "django.template.context_processors.request"
auth = "django.contrib.auth.context_processors.auth"
messages = "django.contrib.messages.context_processors.messages"
settings.configure(
    SECRET_KEY="for the test only",
    ALLOWED_HOSTS=["127.0.0.1", "admin.example.test", "django.localhost"],
    ROOT_URLCONF="urls",
    INSTALLED_APPS=[f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages")],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": [context, auth, messages]},
        }
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{directory}/db.sqlite3"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    STATIC_URL="/static/",
)
sys.modules["urls"] = types.ModuleType("urls")
django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.urls import path  # noqa: E402

sys.modules["urls"].urlpatterns = [path("admin/", admin.site.urls)]
call_command("migrate", verbosity=0)
User.objects.create_superuser(user, f"{user}@example.test", os.environ["PASSWORD"])
call_command("runserver", f"127.0.0.1:{port}", "--noreload")
