"""Websocket addresses."""

from django.urls import path

from channels_app.events import EventsConsumer

websocket_urlpatterns = [path("ws/events/", EventsConsumer.as_asgi())]
